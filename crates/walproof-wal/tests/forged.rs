//! What golden WAL does not reach: forged records at every place in a page, of every length.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use proptest::prelude::*;
use support::forge::{main_data, Forge, SEGMENT_SIZE};
use support::read;
use walproof_wal::{Compression, Finish, Lsn, PgVersion, Range, Reader, Segments};

fn all() -> Range {
    Range::default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Records of any lengths come back as they were written, whatever pages and segments they cross.
    #[test]
    fn records_of_any_length_come_back(lengths in prop::collection::vec(prop_oneof![
        0usize..300, 7900usize..8300, Just(20_000usize), Just(1_200_000usize)
    ], 1..60)) {
        let mut forge = Forge::new(PgVersion::V18, 5);
        let mut expected = Vec::new();
        for (length, xid) in lengths.iter().zip(1..) {
            let lsn = forge.record(21, 0, xid, &main_data(*length));
            expected.push((lsn, *length));
        }
        let mut reader = Reader::open(Segments::from_memory(forge.segments()), all()).unwrap();
        for ((lsn, length), xid) in expected.into_iter().zip(1..) {
            let record = reader.next_record().unwrap().unwrap();
            prop_assert_eq!((record.lsn, record.main_data.len(), record.header.xid), (lsn, length, xid));
            prop_assert!(record.main_data.iter().all(|byte| *byte == 0xAB));
        }
        prop_assert!(reader.next_record().unwrap().is_none());
        prop_assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
    }

    /// Any bytes after a header with the right checksum: taken apart or refused with a location.
    #[test]
    fn any_content_is_read_or_refused(
        content in prop::collection::vec(prop_oneof![3 => 0u8..34, 1 => 250u8..=255, 2 => any::<u8>()], 0..200),
        version in prop::sample::select(PgVersion::ALL.to_vec()),
    ) {
        let mut forge = Forge::new(version, 1);
        forge.record(0, 0x20, 0, &[]);
        let lsn = forge.record(10, 0, 0, &content);
        let outcome = read(Segments::from_memory(forge.segments()), all());
        if outcome.records.len() < 2 {
            prop_assert!(outcome.message().contains(&lsn.to_string()), "{}", outcome.message());
        }
    }

    /// A cut through the LSN space gives the records on either side of it.
    #[test]
    fn an_end_anywhere_keeps_what_lies_before(lengths in prop::collection::vec(0usize..9000, 1..40), cut in 0.0..1.0) {
        let mut forge = Forge::new(PgVersion::V15, 2);
        for length in &lengths {
            forge.record(21, 0, 0, &main_data(*length));
        }
        let segments = Segments::from_memory(forge.segments());
        let whole = read(segments.clone(), all()).records;
        let (first, last) = (whole.first().unwrap().0, whole.last().unwrap().1);
        let end = Lsn(first.0 + ((last - first) as f64 * cut) as u64);
        let before = read(segments, Range { end: Some(end), ..all() });
        let fits = whole.iter().filter(|(_, record_end, _)| *record_end <= end).count();
        // Padding does not count: a record may end up to 7 bytes before its padding does.
        prop_assert!((fits..=fits + 1).contains(&before.records.len()));
        prop_assert!(matches!(before.end, Ok(Finish::Requested)), "{:?}", before.end);
    }
}

/// A record header may be split over two pages at any multiple of 8, also between segments.
#[test]
fn a_header_may_be_split_over_pages() {
    for pages_before in [0, 127] {
        for left in (8..=64).step_by(8) {
            let mut forge = Forge::new(PgVersion::V18, 3);
            let boundary = Lsn(3 * u64::from(SEGMENT_SIZE) + (pages_before + 1) * 8192);
            while boundary - forge.position() > 4000 {
                forge.record(0, 0x20, 0, &main_data(100));
            }
            let room = usize::try_from(boundary - forge.position()).unwrap() - left;
            // A record that leaves, with its padding, `left` bytes on the page.
            forge.record(0, 0x20, 0, &main_data(room - 24 - if room - 24 > 257 { 5 } else { 2 }));
            assert_eq!(boundary - forge.position(), left as u64);
            let split = forge.record(21, 0, 9, &main_data(500));
            forge.record(0, 0x20, 0, &[]);
            let outcome = read(Segments::from_memory(forge.segments()), all());
            let position = outcome.records.iter().position(|(lsn, ..)| *lsn == split).unwrap();
            assert_eq!(outcome.records.len(), position + 2, "{left} bytes left on page {pages_before}");
        }
    }
}

/// The rest of a segment after XLOG/SWITCH is passed over, whatever stands there.
#[test]
fn a_switch_ends_its_segment() {
    let mut forge = Forge::new(PgVersion::V13, 1);
    forge.record(0, 0x20, 0, &main_data(10));
    let switch = forge.switch();
    let next = forge.record(0, 0x20, 0, &[]);
    let mut segments = forge.segments();
    let rest = usize::try_from(switch.offset_in(u64::from(SEGMENT_SIZE))).unwrap() + 24;
    segments[0].1[rest..].fill(0xEE);
    let mut reader = Reader::open(Segments::from_memory(segments), all()).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        found.push((record.lsn, record.operation().to_string()));
    }
    assert_eq!(found[1], (switch, "XLOG/SWITCH".to_owned()));
    assert_eq!(found[2].0, next);
    assert_eq!(reader.accounting().switch_bytes, u64::from(SEGMENT_SIZE) - rest as u64);
}

/// A record that a crashed server gave up is passed over, at a page and at a segment boundary.
#[test]
fn an_overwritten_record_is_passed_over() {
    let cases = [(100, 1), (100, 3), (SEGMENT_SIZE as usize - 20_000, 3)];
    for (version, (before, pages)) in
        [PgVersion::V17, PgVersion::V19].into_iter().flat_map(|version| cases.map(|case| (version, case)))
    {
        let mut forge = Forge::new(version, 8);
        let kept = forge.record(21, 0, 0, &main_data(before));
        let lost = forge.lost_record(&main_data(200_000), pages);
        let after = forge.record(0, 0xD0, 0, &main_data(16));
        let mut reader = Reader::open(Segments::from_memory(forge.segments()), all()).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().lsn, kept);
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(
            (record.lsn, record.operation().to_string()),
            (after, "XLOG/OVERWRITE_CONTRECORD".to_owned())
        );
        assert!(reader.next_record().unwrap().is_none());
        assert_eq!(reader.accounting().overwritten_bytes, after.align_down(8192) - lost);
        assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
    }
}

/// 19 gave the flag of such a page the bit that said something else before: each version's bit is no flag of a lost
/// record in the other.
#[test]
fn the_flag_of_a_lost_record_is_that_of_its_version() {
    for version in PgVersion::ALL {
        let mut forge = Forge::new(version, 8);
        forge.record(21, 0, 0, &main_data(100));
        let lost = forge.lost_record(&main_data(200_000), 1);
        forge.record(0, 0xD0, 0, &main_data(16));
        let mut segments = forge.segments();
        let flags = &mut segments[0].1[8192 + 2];
        assert_eq!(*flags, if version < PgVersion::V19 { 0x8 } else { 0x4 });
        *flags ^= 0xC;
        let outcome = read(Segments::from_memory(segments), all());
        assert_eq!(outcome.records.len(), 1, "version {version}");
        let expected = if version < PgVersion::V19 {
            format!("there is no contrecord flag at {lost}")
        } else {
            "invalid info bits 0008 in WAL segment 000000010000000000000008, LSN 0/802000, offset 8192"
                .to_owned()
        };
        assert_eq!(outcome.message(), expected, "version {version}");
    }
}

/// WAL of a beta is refused by name, with the version that it led to; one bad page of released WAL is not.
#[test]
fn wal_of_a_beta_is_refused() {
    let mut forge = Forge::new(PgVersion::V19, 1);
    forge.record(0, 0x20, 0, &main_data(20_000));
    let mut segments = forge.segments();
    for page in segments[0].1.chunks_mut(8192) {
        page[..2].copy_from_slice(&0xD120u16.to_le_bytes());
    }
    let error = Reader::open(Segments::from_memory(segments.clone()), all()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "WAL segment 000000010000000000000001 is of a pre-release of PostgreSQL 19: its magic number is D120, \
         expected D122"
    );
    assert_eq!(error.detail().unwrap(), "segment 000000010000000000000001, no record read before");
    assert!(error.hint().unwrap().contains("reads PostgreSQL 19 as its first release candidate writes it."));

    segments[0].1[0] = 0x0E;
    let error = Reader::open(Segments::from_memory(segments.clone()), all()).unwrap_err();
    assert!(error.to_string().contains("a pre-release of PostgreSQL 15"), "{error}");
    assert!(error.hint().unwrap().contains("reads PostgreSQL 15 as released."));

    // A number that no version was developed with, and one with nothing of a format after it.
    for (at, bytes) in [(0, [0x23, 0xD1]), (32, [1, 0])] {
        segments[0].1[0] = 0x20;
        segments[0].1[at..at + 2].copy_from_slice(&bytes);
        let error = Reader::open(Segments::from_memory(segments.clone()), all()).unwrap_err();
        assert!(error.to_string().starts_with("invalid magic number D12"), "{error}");
        assert!(error.hint().unwrap().contains("19 (D122)"));
    }

    let mut segments = forge.segments();
    segments[0].1[8192] = 0x20;
    let outcome = read(Segments::from_memory(segments), all());
    assert!(outcome.message().contains("invalid magic number D120 in WAL segment"), "{}", outcome.message());
}

/// The newest timeline is read by default, an older one on request.
#[test]
fn timelines() {
    let mut old = Forge::new(PgVersion::V16, 1);
    old.record(0, 0x20, 0, &main_data(600_000));
    let mut new = Forge::new(PgVersion::V16, 1);
    new.record(0, 0x20, 0, &main_data(600_000));
    let fork = old.position();
    old.record(0, 0x20, 0, &main_data(600_000));
    old.record(0, 0x30, 0, &[]);
    new.set_timeline(2);
    new.record(0, 0x90, 0, &main_data(800_000));
    let segments = Segments::from_memory(old.segments().into_iter().chain(new.segments()));
    let operations = |timeline| {
        let mut reader = Reader::open(segments.clone(), Range { timeline, ..all() }).unwrap();
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if record.lsn >= fork {
                found.push(record.operation().to_string());
            }
        }
        (found, reader.timeline())
    };
    assert_eq!(operations(None), (vec!["XLOG/END_OF_RECOVERY".to_owned()], 2));
    assert_eq!(operations(Some(1)), (vec!["XLOG/NOOP".to_owned(), "XLOG/NEXTOID".to_owned()], 1));
}

/// Where a file is cut off after a promotion, its end is what is wrong: not its first page of an older timeline, nor its
/// name, which damage can leave on the older one.
#[test]
fn a_short_file_of_two_timelines() {
    let mut forge = Forge::new(PgVersion::V16, 1);
    forge.record(0, 0x20, 0, &main_data(40_000));
    forge.set_timeline(2);
    forge.record(0, 0x20, 0, &main_data(9_000));
    forge.record(0, 0x20, 0, &main_data(40_000));
    let mut segments = forge.segments();
    segments[0].1.truncate(9 * 8192 + 5473);
    for timeline in [2, 1] {
        segments[0].0.timeline = timeline;
        let outcome = read(Segments::from_memory(segments.clone()), all());
        let message = format!(
            "could not read WAL segment 0000000{timeline}0000000000000001, offset 73728: read 5473 of 8192"
        );
        assert_eq!(outcome.message(), message);
    }
}

/// Each thing wrong with a page or a record's header has pg_waldump's message, with its place.
#[test]
fn messages_about_headers() {
    let mut forge = Forge::new(PgVersion::V18, 1);
    let first = forge.record(0, 0x20, 0, &main_data(40));
    let second = forge.record(0, 0x20, 0, &main_data(9000));
    let third = forge.record(0, 0x20, 0, &main_data(30));
    let good = forge.segments();
    assert_eq!(
        (first.to_string(), second.to_string(), third.to_string()),
        ("0/100028".to_owned(), "0/100070".to_owned(), "0/1023D0".to_owned())
    );
    let page = Lsn(u64::from(SEGMENT_SIZE) + 8192);
    let in_page = "in WAL segment 000000010000000000000001, LSN 0/102000, offset 8192";
    // Where, what is written there, the records still read, the message.
    let cases: [(Lsn, &[u8], usize, String); 15] = [
        (page, &[0x16, 0xD1], 1, format!("invalid magic number D116 {in_page}")),
        (page, &[0, 0], 1, format!("invalid magic number 0000 {in_page}")),
        (page.advance(2), &[0x11], 1, format!("invalid info bits 0011 {in_page}")),
        (page.advance(4), &[0], 1, format!("out-of-sequence timeline ID 0 (after 1) {in_page}")),
        (page.advance(8), &[0, 0, 0x50], 1, format!("unexpected pageaddr 0/500000 {in_page}")),
        (page.advance(2), &[0], 1, format!("there is no contrecord flag at {second}")),
        (page.advance(16), &[1, 0], 1, format!("invalid contrecord length 1 (expected 949) at {second}")),
        (second, &[7, 0], 1, format!("invalid record length at {second}: expected at least 24, got 7")),
        (second, &[0xFF; 4], 1, format!("record length 4294967295 at {second} too long")),
        (
            second,
            &[0, 0, 0, 0x30],
            1,
            format!("invalid contrecord length 949 (expected 805298288) at {second}"),
        ),
        (second.advance(8), &[1], 1, format!("record with incorrect prev-link 0/100001 at {second}")),
        (second.advance(17), &[22], 1, format!("invalid resource manager ID 22 at {second}")),
        (second.advance(17), &[127], 1, format!("invalid resource manager ID 127 at {second}")),
        (
            second.advance(24),
            &[0],
            1,
            format!("incorrect resource manager data checksum in record at {second}"),
        ),
        (third, &[0], 2, format!("invalid record length at {third}: expected at least 24, got 0")),
    ];
    for (lsn, bytes, records, message) in cases {
        let mut segments = good.clone();
        let at = usize::try_from(lsn.offset_in(u64::from(SEGMENT_SIZE))).unwrap();
        segments[0].1[at..at + bytes.len()].copy_from_slice(bytes);
        let outcome = read(Segments::from_memory(segments), all());
        assert_eq!((outcome.message(), outcome.records.len()), (message, records));
    }
}

/// Each thing wrong with the parts of a record has pg_waldump's message, with the record's place.
#[test]
fn messages_about_blocks() {
    let relation = [0; 16]; // tablespace, database, relation, block
    let with = |head: &[u8]| [head, &relation].concat();
    let cases = [
        (with(&[0, 0x20, 0, 0]), "BKPBLOCK_HAS_DATA set, but no data included at"),
        (with(&[0, 0x00, 9, 0]), "BKPBLOCK_HAS_DATA not set, but data length is 9 at"),
        (vec![0, 0x80, 0, 0, 0, 0, 0, 0], "BKPBLOCK_SAME_REL set but no previous rel at"),
        ([with(&[3, 0, 0, 0]), with(&[3, 0, 0, 0])].concat(), "out-of-order block_id 3 at"),
        (vec![33], "invalid block_id 33 at"),
        (vec![255, 9], "record with invalid length at"),
        (vec![254, 9], "record with invalid length at"),
        (
            with(&[0, 0x10, 0, 0, 0, 0x20, 0, 0, 1]),
            "BKPIMAGE_HAS_HOLE set, but hole offset 0 length 0 block image length 8192 at",
        ),
        (
            with(&[0, 0x10, 0, 0, 0, 0x10, 0, 0, 2]),
            "BKPIMAGE_HAS_HOLE not set, but hole offset 0 length 4096 at",
        ),
        (with(&[0, 0x10, 0, 0, 0, 0x20, 0, 0, 6]), "BKPIMAGE_COMPRESSED set, but block image length 8192 at"),
    ];
    for (content, message) in cases {
        let mut forge = Forge::new(PgVersion::V18, 1);
        forge.record(0, 0x20, 0, &[]);
        let lsn = forge.record(10, 0, 0, &content);
        let outcome = read(Segments::from_memory(forge.segments()), all());
        assert_eq!(outcome.message(), format!("{message} {lsn}"));
    }
}

/// Block references, images, origin and top-level transaction come back as they were written.
#[test]
fn the_parts_of_a_record_come_back() {
    let mut content = Vec::new();
    content.extend([0, 0x30, 3, 0]); // block 0: image and data
    content.extend([100, 0, 50, 0, 0x03 | 0x08, 0x00, 0x10]); // 100 bytes lz4, hole 4096 at 50, apply
    content.extend([1663u32, 5, 16384, 77].into_iter().flat_map(u32::to_le_bytes));
    content.extend([7, 0x80 | 0x40 | 2, 0, 0]); // block 7: same relation, visibility map, will be initialised
    content.extend(5u32.to_le_bytes());
    content.extend([253, 9, 0]);
    content.extend([252, 1, 2, 0, 0]);
    content.extend([255, 4]);
    content.extend([1; 100]);
    content.extend([2; 3]);
    content.extend([3; 4]);
    let mut forge = Forge::new(PgVersion::V18, 1);
    forge.record(10, 0x80, 5, &content);
    let mut reader = Reader::open(Segments::from_memory(forge.segments()), all()).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    let [first, second] = record.blocks else { panic!("{:?}", record.blocks) };
    assert_eq!(
        (first.relation.tablespace, first.relation.database, first.relation.relation),
        (1663, 5, 16384)
    );
    assert_eq!((first.id, first.fork, first.block, first.will_init), (0, 0, 77, false));
    let image = first.image.unwrap();
    assert_eq!((image.length, image.hole_offset, image.hole_length, image.apply), (100, 50, 4096, true));
    assert_eq!((image.compression, image.uncompressed_length()), (Some(Compression::Lz4), 4096));
    assert_eq!((record.image(first), record.block_data(first)), (&[1u8; 100][..], &[2u8; 3][..]));
    assert_eq!((second.id, second.fork, second.block, second.will_init), (7, 2, 5, true));
    assert_eq!((second.relation, second.image), (first.relation, None));
    assert_eq!((record.origin, record.toplevel_xid, record.main_data), (Some(9), Some(0x201), &[3u8; 4][..]));
    assert_eq!(record.image_bytes(), 100);
}
