//! Stripped segments: the same records in the same places, nothing of what was in the tables, and parts that fit
//! together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::Arc;

use support::forge::{main_data, Forge, SEGMENT_SIZE};
use support::Golden;
use walproof_wal::{strip, Error, Finish, PgVersion, Range, Reader, SegmentName, Segments, Stats, Stripped};

fn stripped(segments: Segments) -> (Vec<(SegmentName, Vec<u8>)>, Stripped) {
    let mut written = Vec::new();
    let done = strip(&Arc::new(segments), None, &mut |_| {}, &mut |name, bytes| {
        written.push((name, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    assert_eq!(done.segments, written.len() as u64);
    (written, done)
}

/// Everything that does not depend on contents: of each record its line, of all of them the totals.
fn facts(segments: Segments) -> (Vec<String>, String) {
    let segments = Arc::new(segments);
    let mut reader = Reader::open(Arc::clone(&segments), Range::default()).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let blocks: Vec<_> =
            record.blocks.iter().map(|block| (block.block, block.image, block.data_length)).collect();
        lines.push(format!(
            "{} {} {:?} {} {blocks:?}",
            record.lsn,
            record.end,
            record.operation(),
            record.main_data.len()
        ));
    }
    assert!(matches!(reader.into_finish(), Finish::EndOfWal { .. } | Finish::LastSegment { .. }));
    let (stats, _) = Stats::read(segments, Range::default(), 1).unwrap();
    (lines, format!("{:?} {:?}", stats.totals(), stats.accounting))
}

#[test]
fn records_stay_where_they_are() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (written, done) = stripped(golden.segments());
        assert_eq!(facts(Segments::from_memory(written)), facts(golden.segments()), "{version}");
        assert!(done.records > 1000 && done.blanked_bytes > 100_000, "{version}: {done:?}");
    }
}

#[test]
fn nothing_of_the_tables_is_left() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (written, _) = stripped(golden.segments());
        let mut found = 0;
        for word in golden_words(&golden) {
            let count = |all: &[(SegmentName, Vec<u8>)]| -> usize {
                all.iter()
                    .map(|(_, bytes)| bytes.windows(word.len()).filter(|part| *part == word).count())
                    .sum()
            };
            // Some continue on the next page.
            found += usize::from(count(&golden.segments) > 0);
            assert_eq!(count(&written), 0, "{version}: {word:?}");
        }
        assert!(found >= 20, "{version}: {found}");
    }
}

/// Of every tenth image or block's data, the first bytes that are not alike; an image's page header stays.
fn golden_words(golden: &Golden) -> Vec<Vec<u8>> {
    let is_telling = |bytes: &&[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.sort_unstable();
        bytes.dedup();
        bytes.len() >= 9
    };
    let mut reader = Reader::open(golden.segments(), Range::default()).unwrap();
    let (mut words, mut number) = (Vec::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        for block in record.blocks {
            for contents in [record.image(block).get(24..).unwrap_or_default(), record.block_data(block)] {
                number += 1;
                if number % 10 == 0 {
                    words.extend(contents.windows(12).find(is_telling).map(<[u8]>::to_vec));
                }
            }
        }
    }
    words.sort();
    words.dedup();
    assert!(words.len() > 20, "{}", words.len());
    words.truncate(40);
    words
}

#[test]
fn parts_that_were_stripped_apart_fit_together() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = facts(Segments::from_memory(stripped(golden.segments()).0));
        let mut parts = Vec::new();
        for segment in &golden.segments {
            parts.extend(stripped(Segments::from_memory([segment.clone()])).0);
        }
        assert_eq!(parts.len(), golden.segments.len());
        assert_eq!(facts(Segments::from_memory(parts)), whole, "{version}");
    }
}

/// The record that goes on in the next part begins after others that were given up.
#[test]
fn parts_fit_together_after_records_that_were_given_up() {
    for version in [PgVersion::V17, PgVersion::V19] {
        let mut forge = Forge::new(version, 8);
        forge.record(21, 0, 0, &main_data(SEGMENT_SIZE as usize - 60_000));
        for pages in [1, 2] {
            forge.lost_record(&main_data(200_000), pages);
        }
        let begun = forge.record(0, 0x20, 0, &main_data(80_000));
        forge.record(21, 0, 0, &main_data(100));
        let segments = forge.segments();
        assert_eq!(segments.len(), 2);
        assert!(begun < segments[1].0.start(SEGMENT_SIZE).unwrap());
        let parts = segments
            .iter()
            .flat_map(|part| stripped(Segments::from_memory([part.clone()])).0)
            .collect::<Vec<_>>();
        let whole = facts(Segments::from_memory(stripped(Segments::from_memory(segments)).0));
        assert_eq!(whole.0.len(), 3);
        assert_eq!(facts(Segments::from_memory(parts)), whole, "{version}");
    }
}

#[test]
fn what_cannot_be_written_ends_it() {
    let golden = Golden::load(PgVersion::V16);
    let mut written = 0;
    let failed = strip(&Arc::new(golden.segments()), None, &mut |_| {}, &mut |_, _| {
        written += 1;
        Err(Error::NoSegments { path: "full".into() })
    });
    assert!(failed.is_err());
    assert_eq!(written, 1);
}
