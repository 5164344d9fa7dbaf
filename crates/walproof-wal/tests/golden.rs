//! WAL that real servers of every version wrote, against what their own tools said of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use support::{read, Golden};
use walproof_wal::{Compression, Finish, Lsn, PgVersion, Range, RmgrId, SegmentName, Segments, Summary};

/// Per operation what pg_waldump --stats=record prints.
#[test]
fn totals_are_those_of_pg_waldump() {
    let mut compared = Vec::new();
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let summary = Summary::read(golden.segments(), golden.range()).unwrap();
        assert_eq!(summary.identity.version, version);
        let Some(expected) = golden.stats else { continue };
        let actual: BTreeMap<_, _> = summary
            .by_operation()
            .map(|(operation, totals)| {
                (operation.to_string(), (totals.records, totals.record_bytes, totals.image_bytes))
            })
            .collect();
        assert_eq!(actual, expected, "version {version}");
        compared.push(version.major());
    }
    assert_eq!(compared, [13, 15, 16, 17, 18]);
}

/// Records, images and bytes that pg_stat_wal counted, in the part of the WAL that it covers.
#[test]
fn totals_are_those_of_pg_stat_wal() {
    let mut compared = Vec::new();
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let Some(quiet) = golden.facts.get("quiet") else { continue };
        let range = Range { end: Some(quiet.parse().unwrap()), ..golden.range() };
        let summary = Summary::read(golden.segments(), range).unwrap();
        let fact = |name: &str| golden.facts[name].parse::<u64>().unwrap();
        assert_eq!(summary.totals().records, fact("records"), "version {version}");
        assert_eq!(summary.images.count, fact("images"), "version {version}");
        assert_eq!(summary.totals().combined_bytes(), fact("bytes"), "version {version}");
        compared.push(version.major());
    }
    assert_eq!(compared, [14, 15, 16, 17, 18]);
}

/// The parts add up to the LSN distance: across switches, segments, and a record that a crash cut off.
#[test]
fn every_byte_is_accounted_for() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let summary = Summary::read(golden.segments(), golden.range()).unwrap();
        let parts = summary.accounting;
        assert_eq!((summary.start, summary.end), (golden.start, golden.end), "version {version}");
        assert_eq!(parts.total(), golden.end - golden.start);
        assert_eq!(parts.record_bytes, summary.totals().combined_bytes());
        assert_eq!(parts.segment_header_bytes, 80, "the range enters two segments");
        assert!(parts.switch_bytes > 100_000 && parts.overwritten_bytes > 10_000, "{parts:?}");
    }
}

/// What is not in pg_waldump's totals: images by kind, transactions, checkpoints.
#[test]
fn images_transactions_and_checkpoints() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let summary = Summary::read(golden.segments(), golden.range()).unwrap();
        let images = summary.images;
        assert!(images.hint_count > 0 && images.hint_count < images.count, "initdb made checksums");
        assert!(images.uncompressed_bytes > images.bytes);
        assert_eq!(images.not_applied_count, 0);
        assert!(images.compressed_by(Compression::Pglz) > images.count / 2);
        assert_eq!(images.compressed_by(Compression::Lz4) + images.compressed_by(Compression::Zstd), 0);
        let transactions = summary.transactions;
        assert!(transactions.commits > 50 && transactions.aborts >= 2);
        let (first, last) =
            (transactions.first_commit_unix_us.unwrap(), transactions.last_commit_unix_us.unwrap());
        assert!(first < last && last - first < 600_000_000, "the load took less than ten minutes");
        assert!(summary.checkpoints.len() >= 3, "two asked for, one at the end of recovery");
        for checkpoint in &summary.checkpoints {
            assert!(checkpoint.redo <= checkpoint.lsn);
            assert_eq!(checkpoint.timeline, 1);
            assert!((first / 1_000_000 - 1..=last / 1_000_000 + 1).contains(&checkpoint.time_unix_s));
        }
        let managers: Vec<String> = summary.by_rmgr().map(|(rmgr, _)| rmgr.to_string()).collect();
        for wanted in ["Hash", "Gin", "Gist", "SPGist", "BRIN", "Sequence", "MultiXact", "ReplicationOrigin"]
        {
            assert!(
                managers.iter().any(|name| name == wanted),
                "{wanted} in version {version}: {managers:?}"
            );
        }
        assert!(summary.by_rmgr().all(|(rmgr, _)| rmgr <= RmgrId(21)));
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

        // The last segment was recycled itself: behind the last page written are old pages, and behind the
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
    let backwards = Range { start: Some(golden.end), end: Some(golden.start), timeline: None };
    assert_eq!(
        read(golden.segments(), backwards).message(),
        format!("start WAL location {} is after end WAL location {}", golden.end, golden.start)
    );
    let elsewhere = Range { start: Some(Lsn(1 << 40)), end: None, timeline: None };
    assert!(read(golden.segments(), elsewhere).message().starts_with("could not find WAL segment"));
}
