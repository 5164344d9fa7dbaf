//! WAL that real servers of every version wrote, against what their own tools said of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use support::{read, Golden};
use walproof_wal::{ByMethod, Finish, Lsn, PgVersion, Range, Reader, RmgrId, SegmentName, Segments, Stats};

/// Per operation what pg_waldump --stats=record prints.
#[test]
fn totals_are_those_of_pg_waldump() {
    let mut compared = Vec::new();
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        assert_eq!(stats.identity.version, version);
        let Some(expected) = golden.stats else { continue };
        let actual: BTreeMap<_, _> = stats
            .by_operation()
            .map(|(operation, totals)| {
                (operation.to_string(), (totals.records, totals.record_bytes, totals.image_bytes))
            })
            .collect();
        assert_eq!(actual, expected, "version {version}");
        compared.push(version.major());
    }
    assert_eq!(compared, [13, 15, 16, 17, 18, 19]);
}

/// Records, images and bytes that pg_stat_wal counted, in the part of the WAL that it covers.
#[test]
fn totals_are_those_of_pg_stat_wal() {
    let mut compared = Vec::new();
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let Some(quiet) = golden.facts.get("quiet") else { continue };
        let range = Range { end: Some(quiet.parse().unwrap()), ..golden.range() };
        let (stats, _) = Stats::read(golden.segments(), range, 1).unwrap();
        let fact = |name: &str| golden.facts[name].parse::<u64>().unwrap();
        assert_eq!(stats.totals().records, fact("records"), "version {version}");
        assert_eq!(stats.images().count, fact("images"), "version {version}");
        assert_eq!(stats.totals().combined_bytes(), fact("bytes"), "version {version}");
        compared.push(version.major());
    }
    assert_eq!(compared, [14, 15, 16, 17, 18, 19]);
}

/// The parts add up to the LSN distance: across switches, segments, and a record that a crash cut off.
#[test]
fn every_byte_is_accounted_for() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        let parts = stats.accounting;
        assert_eq!((stats.start, stats.end), (golden.start, golden.end), "version {version}");
        assert_eq!(parts.total(), golden.end - golden.start);
        assert_eq!(parts.record_bytes, stats.totals().combined_bytes());
        assert_eq!(parts.segment_header_bytes, 80, "the range enters two segments");
        assert!(parts.switch_bytes > 100_000 && parts.overwritten_bytes > 10_000, "{parts:?}");
    }
}

/// Relations, minutes and operations are three ways to divide the same bytes.
#[test]
fn relations_and_minutes_add_up() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        let mut by_relation = stats.relations().none();
        let mut distinct = 0;
        for relation in stats.relations().iter() {
            by_relation += relation.totals;
            distinct += relation.distinct_blocks();
            assert!(relation.distinct_blocks() > 0);
        }
        assert_eq!(by_relation, stats.totals(), "version {version}");
        let mut blocks = std::collections::BTreeSet::new();
        let mut reader = Reader::open(golden.segments(), golden.range()).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            blocks.extend(record.blocks.iter().map(|block| (block.relation, block.fork, block.block)));
        }
        assert_eq!(distinct, blocks.len() as u64);
        let methods: Vec<String> = stats
            .relations()
            .iter()
            .filter_map(|relation| relation.method)
            .map(|rmgr| rmgr.to_string())
            .collect();
        for method in ["Btree", "Hash", "Gin", "Gist", "SPGist", "BRIN"] {
            assert!(methods.iter().any(|name| name == method), "{method} in version {version}: {methods:?}");
        }
        let mut by_minute = stats.rate().untimed();
        let mut commits = 0;
        for (start_s, minute) in stats.rate().minutes() {
            assert_eq!(start_s % 60, 0);
            by_minute += minute.totals;
            commits += minute.commits;
        }
        assert_eq!(by_minute, stats.totals());
        assert_eq!(commits, stats.transactions().commits);
    }
}

/// What is not in pg_waldump's totals: images by kind, transactions, checkpoints.
#[test]
fn images_transactions_and_checkpoints() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        let images = stats.images();
        assert!(images.hint_count > 0 && images.hint_count < images.count, "initdb made checksums");
        assert!(images.uncompressed_bytes > images.bytes);
        assert_eq!(images.not_applied_count, 0);
        let ByMethod([pglz, lz4, zstd]) = images.compressed;
        assert!(pglz.count > images.count / 2 && pglz.bytes < pglz.uncompressed_bytes);
        assert_eq!(lz4.count, 0);
        assert_eq!(zstd.count, 0);
        let transactions = stats.transactions();
        assert!(transactions.commits > 50 && transactions.aborts >= 2);
        let (first, last) =
            (transactions.first_commit_unix_us.unwrap(), transactions.last_commit_unix_us.unwrap());
        assert!(first < last && last - first < 600_000_000, "the load took less than ten minutes");
        assert!(stats.checkpoints().len() >= 3, "two asked for, one at the end of recovery");
        for checkpoint in stats.checkpoints() {
            assert!(checkpoint.redo <= checkpoint.lsn);
            assert_eq!(checkpoint.timeline, 1);
            assert!((first / 1_000_000 - 1..=last / 1_000_000 + 1).contains(&checkpoint.time_unix_s));
        }
        let managers: Vec<String> = stats.by_rmgr().map(|(rmgr, _)| rmgr.to_string()).collect();
        for wanted in ["Hash", "Gin", "Gist", "SPGist", "BRIN", "Sequence", "MultiXact", "ReplicationOrigin"]
        {
            assert!(
                managers.iter().any(|name| name == wanted),
                "{wanted} in version {version}: {managers:?}"
            );
        }
        assert!(stats.by_rmgr().all(|(rmgr, _)| rmgr <= RmgrId(21)));
    }
}

/// Without an end, reading stops where the WAL does: at zeros, at a recycled segment, at stale pages.
#[test]
fn the_end_is_found_whatever_follows() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let open = Range { start: Some(golden.start), ..Range::default() };
        let plain = read(golden.segments(), open);
        let (_, true_end, _) = *plain.records.last().unwrap();
        assert!(matches!(plain.end, Ok(Finish::EndOfWal { .. })), "{:?}", plain.end);
        assert!(true_end >= golden.end);

        // Old segments kept for later use, under names to come.
        let size = 1 << 20;
        let mut recycled = golden.segments.clone();
        let last = golden.segments.last().unwrap().0;
        for (ahead, (_, bytes)) in golden.segments.iter().enumerate() {
            let at = last.start(size).unwrap().advance((ahead as u64 + 1) * u64::from(size));
            recycled.push((SegmentName::holding(at, 1, size), bytes.clone()));
        }
        let outcome = read(Segments::from_memory(recycled), open);
        assert_eq!(outcome.records, plain.records, "version {version}");
        assert!(matches!(outcome.end, Ok(Finish::EndOfWal { .. })));

        // The last segment was recycled itself: after the last page written are old pages, and after the
        // last record may be an old record that begins where a new one would.
        let mut stale = golden.segments.clone();
        let old = stale[0].1.clone();
        let offset = usize::try_from(true_end.offset_in(u64::from(size))).unwrap();
        let newest = &mut stale.last_mut().unwrap().1;
        newest[offset..].copy_from_slice(&old[offset..]);
        let outcome = read(Segments::from_memory(stale), open);
        assert_eq!(outcome.records, plain.records, "version {version}");
        assert!(matches!(outcome.end, Ok(Finish::EndOfWal { .. })), "{:?}", outcome.end);
    }
}

/// A start anywhere moves to the next record: the records are those of the whole that begin there or later.
#[test]
fn any_start_leads_to_the_next_record() {
    let golden = Golden::load(PgVersion::V18);
    let whole = read(golden.segments(), golden.range());
    // Behind a switch, up to the end of the segment, there is nothing that leads anywhere.
    let switch = whole.records.iter().position(|(lsn, end, _)| *end - *lsn > 100_000).unwrap();
    let unused = whole.records[switch].0..whole.records[switch].1;
    for offset in (0..golden.end - golden.start).step_by(19_997) {
        let start = golden.start.advance(offset);
        if unused.contains(&start) {
            continue;
        }
        let expected = whole.records.iter().position(|(lsn, ..)| *lsn >= start).unwrap();
        let part = read(golden.segments(), Range { start: Some(start), ..golden.range() });
        assert_eq!(part.records, whole.records[expected..], "from {start}");
    }
}

/// A segment that is missing between others is an error that names both sides; at the end it is the end.
#[test]
fn a_gap_is_an_error() {
    let golden = Golden::load(PgVersion::V17);
    let mut segments = golden.segments.clone();
    let (missing, _) = segments.remove(1);
    let open = Range { start: Some(golden.start), ..Range::default() };
    let outcome = read(Segments::from_memory(segments.clone()), open);
    let error = outcome.end.unwrap_err();
    let lsn = missing.start(1 << 20).unwrap();
    assert_eq!(error.to_string(), format!("could not find WAL segment {missing} for {lsn}"));
    assert_eq!(error.detail().unwrap(), format!("the next segment at hand is {}", segments[1].0));

    segments.pop();
    let outcome = read(Segments::from_memory(segments), open);
    assert!(
        matches!(outcome.end, Ok(Finish::LastSegment { wanted }) if wanted == missing),
        "{:?}",
        outcome.end
    );
}

/// Damage in the middle is an error, because the next segment shows that the WAL goes on.
#[test]
fn damage_before_a_good_segment_is_an_error() {
    let golden = Golden::load(PgVersion::V16);
    let mut segments = golden.segments.clone();
    let open = Range { start: Some(golden.start), ..Range::default() };
    let whole = read(golden.segments(), open);
    let (lsn, ..) = whole.records[100];
    segments[0].1[usize::try_from(lsn.offset_in(1 << 20)).unwrap() + 30] ^= 1;
    let outcome = read(Segments::from_memory(segments), open);
    assert_eq!(outcome.records, whole.records[..100]);
    let error = outcome.end.unwrap_err();
    assert_eq!(error.to_string(), format!("incorrect resource manager data checksum in record at {lsn}"));
    let (previous, ..) = whole.records[99];
    assert_eq!(
        error.detail().unwrap(),
        format!("segment {}, previous record at {previous}", golden.segments[0].0)
    );
    assert!(error.hint().unwrap().contains(&lsn.to_string()));
}

/// An end that the WAL does not reach is an error; one before the first record is none.
#[test]
fn ends_out_of_reach() {
    let golden = Golden::load(PgVersion::V14);
    let beyond = Range { end: Some(Lsn(golden.end.0 + 4_000_000)), ..golden.range() };
    assert!(read(golden.segments(), beyond).end.is_err());
    let empty = Range { end: Some(golden.start), ..golden.range() };
    let outcome = read(golden.segments(), empty);
    assert_eq!(outcome.records, []);
    assert!(matches!(outcome.end, Ok(Finish::Requested)));
    let backwards = Range { start: Some(golden.end), end: Some(golden.start), ..Range::default() };
    assert_eq!(
        read(golden.segments(), backwards).message(),
        format!("start WAL location {} is after end WAL location {}", golden.end, golden.start)
    );
    let elsewhere = Range { start: Some(Lsn(1 << 40)), end: None, ..Range::default() };
    assert!(read(golden.segments(), elsewhere).message().starts_with("could not find WAL segment"));
}

/// A missing segment is an error with both sides named; with gaps allowed, what is at hand is read.
#[test]
fn gaps() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = read(golden.segments(), golden.range());
        let mut segments = golden.segments.clone();
        let (missing, _) = segments.remove(1);
        let (from, to) = (missing.start(1 << 20).unwrap(), segments[1].0.start(1 << 20).unwrap());
        let stopped = read(Segments::from_memory(segments.clone()), golden.range());
        let error = stopped.end.unwrap_err();
        assert!(error.to_string().starts_with(&format!("could not find WAL segment {missing} for ")));
        assert_eq!(error.detail().unwrap(), format!("the next segment at hand is {}", segments[1].0));
        assert!(error.hint().unwrap().contains("--allow-gaps"), "{:?}", error.hint());

        let range = Range { allow_gaps: true, ..golden.range() };
        let outcome = read(Segments::from_memory(segments.clone()), range);
        assert!(matches!(outcome.end, Ok(Finish::Requested)), "{:?}", outcome.end);
        let is_at_hand = |&(lsn, end, _): &(Lsn, Lsn, u32)| end <= from || lsn >= to;
        let expected: Vec<_> = whole.records.iter().copied().filter(is_at_hand).collect();
        assert_eq!(outcome.records, expected, "version {version}");
        let (stats, _) = Stats::read(Segments::from_memory(segments), range, 2).unwrap();
        let [gap] = stats.gaps[..] else { panic!("{:?}", stats.gaps) };
        assert!(gap.start <= from && gap.end >= to && gap.end < to.advance(8192 * 4), "{gap:?}");
    }
}
