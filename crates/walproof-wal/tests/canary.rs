//! A canary in every place of WAL that can hold something of somebody's data: none of it is left in stripped segments.
//!
//! The WAL is forged: each operation of each resource manager in each version, with the canary wherever the operation
//! has no number that readers need. What is kept of those is written down here a second time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::expect_used)]

mod support;

use std::sync::Arc;

use support::forge::{Forge, SEGMENT_SIZE};
use walproof_wal::{
    strip, Compression, Lsn, PgVersion, Range, Reader, SegmentName, Segments, Stream, PAGE_SIZE,
};

const CANARY: &[u8; 16] = b"kNrYq7Zw%mT3vBx9";
/// So many bytes of it in a row are a find.
const TELLING: usize = 5;
const PAGE: usize = PAGE_SIZE as usize;
type Files = Vec<(SegmentName, Vec<u8>)>;

fn canary(length: usize) -> Vec<u8> {
    CANARY.iter().copied().cycle().take(length).collect()
}

/// Where the canary is, at any of its bytes.
fn finds(bytes: &[u8]) -> Vec<usize> {
    let cycle = canary(CANARY.len() + TELLING - 1);
    let words: Vec<&[u8]> = cycle.windows(TELLING).collect();
    let is_of_it = |byte: u8| CANARY.contains(&byte);
    (0..bytes.len().saturating_sub(TELLING - 1))
        .filter(|&at| is_of_it(bytes[at]) && words.contains(&&bytes[at..at + TELLING]))
        .collect()
}

fn stripped(files: Files) -> Files {
    let mut written = Vec::new();
    strip(&Arc::new(Segments::from_memory(files)), None, &mut |_| {}, &mut |name, bytes| {
        written.push((name, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    written
}

/// What an operation has before anything that could be contents: numbers, none of them of the canary.
fn numbers(version: PgVersion, rmgr: u8, info: u8) -> Vec<u8> {
    let is_19 = version >= PgVersion::V19;
    match (rmgr, info & 0x70) {
        (0, 0x00 | 0x10) if info < 0x20 => vec![1; if is_19 { 80 } else { 72 }],
        (1, 0x00 | 0x20 | 0x30 | 0x40) if info & 0x80 == 0 => vec![2; 8],
        (1, 0x00 | 0x20 | 0x30 | 0x40) => {
            let mut fields = vec![2; 8];
            // Every flag; database and tablespace; two subtransactions; one file.
            for word in [0x1FFu32, 5, 1663, 2, 700, 701, 1, 1663, 5, 16384] {
                fields.extend(word.to_le_bytes());
            }
            fields
        }
        (2, 0x20) if info < 0x80 => vec![3; 24],
        (4, code) if info < 0x80 && code == if version < PgVersion::V15 { 0x10 } else { 0x20 } => vec![4; 4],
        (9, 0x10..=0x30 | 0x50) => vec![5; 8],
        _ => Vec::new(),
    }
}

fn block_header(id: u8, flags: u8, data: usize, image: &[u8]) -> Vec<u8> {
    let mut bytes = vec![id, flags];
    bytes.extend(u16::try_from(data).unwrap().to_le_bytes());
    bytes.extend(image);
    for word in [1663u32, 5, 16384 + u32::from(id), 7] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

fn image_header(length: usize, hole_offset: u16, info: u8) -> Vec<u8> {
    let mut bytes = u16::try_from(length).unwrap().to_le_bytes().to_vec();
    bytes.extend(hole_offset.to_le_bytes());
    bytes.push(info);
    bytes
}

/// A table's page without its hole, full of the canary, but for the fields that tell how full it is.
fn table_page(length: u16, lower: u16) -> Vec<u8> {
    let mut page = canary(usize::from(length));
    for (at, field) in [(12, lower), (14, lower + 8192 - length), (16, 8192)] {
        page[at..at + 2].copy_from_slice(&field.to_le_bytes());
    }
    page
}

/// `pglz` of anything: literals only.
fn literal_pglz(page: &[u8]) -> Vec<u8> {
    page.chunks(8).flat_map(|eight| [&[0], eight].concat()).collect()
}

fn compressed(method: Compression, page: &[u8]) -> Vec<u8> {
    match method {
        Compression::Pglz => literal_pglz(page),
        Compression::Lz4 => lz4_flex::block::compress(page),
        Compression::Zstd => zstd::bulk::compress(page, 3).unwrap(),
    }
}

/// A record with the canary in images of every kind, data of blocks and main data.
fn content(version: PgVersion, rmgr: u8, info: u8, number: usize) -> Vec<u8> {
    let (apply, methods): (u8, &[(u8, Compression)]) = if version < PgVersion::V15 {
        (0x04, &[(0x02, Compression::Pglz)])
    } else {
        (0x02, &[(0x04, Compression::Pglz), (0x08, Compression::Lz4), (0x10, Compression::Zstd)])
    };
    let (mut headers, mut payload) = (Vec::new(), Vec::new());
    let mut add = |header: Vec<u8>, parts: &[&[u8]]| {
        headers.extend(header);
        parts.iter().for_each(|part| payload.extend_from_slice(part));
    };
    if number % 4 == 0 {
        let plain = table_page(600, 200);
        add(block_header(0, 0x30, 40, &image_header(600, 200, apply | 1)), &[&plain, &canary(40)]);
        // Of no table, and of none that says what it is.
        add(block_header(1, 0x10, 0, &image_header(8192, 0, apply)), &[&canary(8192)]);
        let (mut id, noise) = (2, table_page(4000, 300));
        for (flag, method) in methods {
            let packed = compressed(*method, &noise);
            let header =
                [image_header(packed.len(), 300, apply | flag | 1), 4192u16.to_le_bytes().to_vec()].concat();
            add(block_header(id, 0x10, 0, &header), &[&packed]);
            id += 1;
        }
    } else {
        add(block_header(0, 0x20, 33, &[]), &[&canary(33)]);
    }
    let main = [numbers(version, rmgr, info), canary(150 + number % 9)].concat();
    headers.extend([253, 3, 0]);
    headers.push(255);
    headers.push(u8::try_from(main.len()).unwrap());
    [headers, payload, main].concat()
}

/// Every operation there could be, a record that was given up, and one longer than a segment.
fn forged(version: PgVersion) -> Forge {
    let mut forge = Forge::new(version, 3);
    let mut number = 0;
    let extensions = if version < PgVersion::V15 { 0 } else { 2 };
    for rmgr in (0..=21u8).chain([128, 255].into_iter().take(extensions)) {
        for info in (0..=0xF0u8).step_by(16) {
            if (rmgr, info) != (0, 0x40) {
                forge.record(rmgr, info, 9, &content(version, rmgr, info, number));
                number += 1;
            }
        }
    }
    let long = [&[254][..], &1_500_000u32.to_le_bytes(), &canary(1_500_000)].concat();
    forge.record(21, 0, 9, &long);
    for pages in [1, 3, 150] {
        forge.lost_record(&long, pages);
        forge.record(0, 0xD0, 0, &content(version, 0, 0xD0, 1));
    }
    forge.switch();
    forge.record(10, 0, 9, &content(version, 10, 0, 1));
    forge
}

/// The same with the canary where no record is: padding, the rest of a segment after a switch, what follows the end.
fn littered(version: PgVersion) -> (Files, Lsn) {
    let mut forge = forged(version);
    let end = forge.position();
    let mut files = forge.segments();
    let mut reader = Reader::open(Segments::from_memory(files.clone()), Range::default()).unwrap();
    let mut used: Vec<(u64, u64, bool)> = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let is_switch = record.operation().to_string() == "XLOG/SWITCH";
        used.push((record.lsn.0, record.end.0, is_switch));
    }
    assert_eq!(reader.end_lsn(), end);
    let first = used[0].0 / u64::from(SEGMENT_SIZE);
    let mut put = |lsn: u64, bytes: &[u8]| {
        let (number, offset) = (lsn / u64::from(SEGMENT_SIZE), lsn as usize % SEGMENT_SIZE as usize);
        let file = &mut files[(number - first) as usize].1;
        let count = bytes.len().min(file.len() - offset);
        file[offset..offset + count].copy_from_slice(&bytes[..count]);
    };
    for (lsn, to, is_switch) in used {
        if is_switch {
            put(lsn + 24, &canary((to - lsn - 24) as usize));
        }
    }
    // A recycled segment: old pages with old addresses, and one that has the right one.
    let rest = SEGMENT_SIZE as usize - (end.0 % u64::from(SEGMENT_SIZE)) as usize;
    put(end.0, &canary(rest));
    for (_, bytes) in &mut files {
        for page in bytes.chunks_mut(PAGE) {
            if page[..2] == version.magic().to_le_bytes() {
                page[20..24].copy_from_slice(&CANARY[..4]);
            }
        }
    }
    let name = SegmentName::holding(end.advance(u64::from(SEGMENT_SIZE)), 1, SEGMENT_SIZE);
    files.push((name, canary(SEGMENT_SIZE as usize)));
    (files, end)
}

/// Everything that must hold of what was written.
fn check(version: PgVersion, written: &Files) {
    for (name, bytes) in written {
        let left = finds(bytes);
        assert!(left.is_empty(), "{version}: {} in {name}, first at {:#x}", left.len(), left[0]);
        for page in bytes.chunks(PAGE) {
            assert_eq!(page[20..24], [0; 4], "{version}: padding of a page's header in {name}");
        }
    }
    let mut reader = Reader::open(Segments::from_memory(written.clone()), Range::default()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.bytes()[18..20], [0, 0], "{version}: padding of the record at {}", record.lsn);
        for block in record.blocks {
            let image = record.image(block);
            let method = block.image.and_then(|image| image.compression);
            let kept = if method.is_none() && image.len() > 18 { 12..18 } else { 0..0 };
            let rest = image.iter().enumerate().filter(|(at, _)| !kept.contains(at));
            assert!(rest.into_iter().all(|(_, byte)| *byte == 0), "{version}: image at {}", record.lsn);
            assert!(record.block_data(block).iter().all(|byte| *byte == 0), "{version}: {}", record.lsn);
        }
    }
}

#[test]
fn nothing_of_it_is_left() {
    for version in PgVersion::ALL {
        let (files, _) = littered(version);
        for (name, bytes) in &files {
            assert!(finds(bytes).len() > 1000, "{version}: hardly any in {name}");
        }
        let written = stripped(files.clone());
        assert_eq!(written.len(), files.len() - 1, "all but the one that is no WAL yet");
        check(version, &written);
        // What is kept is kept: the same records, with the same numbers.
        let facts = |files: Files| {
            let mut reader = Reader::open(Segments::from_memory(files), Range::default()).unwrap();
            let mut facts = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                let kept = numbers(version, record.header.rmgr.0, record.header.info);
                facts.push((record.lsn, record.end, record.operation(), record.blocks.to_vec()));
                assert!(record.main_data.starts_with(&kept), "{} at {}", record.operation(), record.lsn);
            }
            (facts, reader.accounting())
        };
        assert_eq!(facts(written), facts(files), "{version}");
    }
}

#[test]
fn nothing_of_it_is_left_in_parts() {
    for version in PgVersion::ALL {
        let (files, _) = littered(version);
        let (last, segments) = files.split_last().unwrap();
        assert!(last.1.starts_with(CANARY));
        let mut parts = Vec::new();
        for segment in segments {
            // One that is nothing but the middle of a record has no record to begin with.
            let single = Segments::from_memory([segment.clone()]);
            let mut reader = Reader::open(single, Range::default()).unwrap();
            if !matches!(reader.next_record(), Ok(Some(_))) {
                continue;
            }
            parts.extend(stripped(vec![segment.clone()]));
        }
        assert!(parts.len() >= 5, "{version}: {}", parts.len());
        for (name, bytes) in &parts {
            assert!(finds(bytes).is_empty(), "{version}: {:?} in {name}", finds(bytes).first());
        }
    }
}

/// The same bytes come out of WAL that arrives in pieces, but for what is held back of a record that is not complete.
#[test]
fn what_arrives_is_stripped_likewise() {
    for version in PgVersion::ALL {
        let (files, end) = littered(version);
        let whole = |files: &Files| files.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>();
        let start = files[0].0.start(SEGMENT_SIZE).unwrap();
        let (arriving, count) = (whole(&files), (end - start) as usize);
        let expected = whole(&stripped(files));
        for piece in [1 << 20, 131_072, 8191, 40] {
            let mut stream = Stream::new(start, SEGMENT_SIZE);
            let (mut out, mut records) = (Vec::new(), 0);
            for bytes in arriving[..count].chunks(piece) {
                stream.push(bytes, &mut |_| records += 1, &mut out).unwrap();
            }
            assert_eq!(out.len(), count, "{version}, pieces of {piece}");
            assert!(out == expected[..count], "{version}, pieces of {piece}");
            assert!(records > 300);
        }
        let mut stream = Stream::new(start, SEGMENT_SIZE);
        let mut out = Vec::new();
        let failed = stream.push(&arriving[..count + 4096], &mut |_| {}, &mut out).unwrap_err();
        assert!(failed.to_string().contains("record"), "{failed}");
        assert!(finds(&out).is_empty(), "what is no record is not given back");
    }
}

/// Pieces of real WAL, which begins in the middle of a record in some.
#[test]
fn golden_wal_that_arrives() {
    for version in PgVersion::ALL {
        let golden = support::Golden::load(version);
        let all: Vec<u8> = golden.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let start = golden.segments[0].0.start(SEGMENT_SIZE).unwrap();
        let expected: Vec<u8> =
            stripped(golden.segments.clone()).into_iter().flat_map(|(_, bytes)| bytes).collect();
        let count = (golden.end - start) as usize;
        let mut stream = Stream::new(start, SEGMENT_SIZE);
        let (mut out, mut first) = (Vec::new(), None);
        for bytes in all[..count].chunks(100_000) {
            let look = &mut |record: &walproof_wal::Record<'_>| {
                first.get_or_insert(record.lsn);
            };
            stream.push(bytes, look, &mut out).unwrap();
        }
        let from = (first.unwrap() - start) as usize;
        assert!(out.len() > count - 8192, "{version}: {} of {count}", out.len());
        assert!(out[from..] == expected[from..out.len()], "{version}");
    }
}

/// A record that crosses into another segment with so many of its bytes in the first one.
#[test]
fn halves_of_a_record_make_one() {
    for version in [PgVersion::V13, PgVersion::V18] {
        for (before, number) in (8..=224).step_by(8).flat_map(|before| [(before, 0), (before, 1)]) {
            let mut forge = Forge::new(version, 3);
            let filling = SEGMENT_SIZE as usize - before;
            loop {
                let left = filling - (forge.position().0 as usize % SEGMENT_SIZE as usize);
                if left == 0 {
                    break;
                }
                let usual = 24 + 2 + 100 + 2;
                let take = if left <= 4 * usual {
                    if left > 248 {
                        left / 2 / 8 * 8
                    } else {
                        left
                    }
                } else {
                    usual
                };
                forge.record(10, 0, 9, &support::forge::main_data(take - 26));
            }
            let cut = forge.record(21, 0, 9, &content(version, 21, 0, number));
            assert_eq!(cut.0 % u64::from(SEGMENT_SIZE), filling as u64);
            let next = forge.record(10, 0, 9, &content(version, 10, 0, 1));
            let files = forge.segments();
            assert_eq!(files.len(), 2, "it goes on in the second segment");
            let parts: Files = files.iter().flat_map(|file| stripped(vec![file.clone()])).collect();
            check(version, &parts);
            let mut reader = Reader::open(Segments::from_memory(parts), Range::default()).unwrap();
            let mut lsns = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                lsns.push(record.lsn);
            }
            assert_eq!(
                lsns[lsns.len() - 2..],
                [cut, next],
                "{version}, {before} bytes: {:?}",
                reader.finish()
            );
        }
    }
}
