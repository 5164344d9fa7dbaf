//! WAL made again from what could be told of golden records: the same records in the same places, nothing else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::Arc;

use support::Golden;
use walproof_wal::{
    Lsn, PgVersion, Range, Reader, Rebuilder, Record, SegmentName, Segments, Stats, ToldBlock, ToldRecord,
    Untold,
};

const TELLING: [PgVersion; 5] =
    [PgVersion::V15, PgVersion::V16, PgVersion::V17, PgVersion::V18, PgVersion::V19];

fn blocks(record: &Record<'_>, with_data: bool) -> Vec<ToldBlock> {
    let told = |block: &walproof_wal::BlockRef| ToldBlock {
        id: block.id,
        relation: block.relation,
        fork: block.fork,
        block: block.block,
        image: block.image,
        data_length: with_data.then_some(block.data_length),
    };
    record.blocks.iter().map(told).collect()
}

fn names(record: &Record<'_>) -> (String, String) {
    let operation = record.operation();
    (operation.rmgr.to_string(), operation.name().unwrap_or("UNKNOWN").to_owned())
}

/// The golden WAL from its second record on, told and made again.
fn rebuilt(golden: &Golden, version: PgVersion, with_data: bool) -> (Vec<(SegmentName, Vec<u8>)>, Range) {
    let mut reader = Reader::open(golden.segments(), golden.range()).unwrap();
    reader.next_record().unwrap().unwrap();
    let (mut out, mut rebuilder, mut first, mut end) = (Vec::new(), None, Lsn(0), Lsn(0));
    let size = golden.segments[0].1.len() as u32;
    while let Some(record) = reader.next_record().unwrap() {
        let (rmgr, operation) = names(&record);
        let made = rebuilder.get_or_insert_with(|| {
            first = record.lsn;
            Rebuilder::new(version, 7, golden.segments[0].0.timeline, size, record.lsn)
        });
        let told = ToldRecord {
            lsn: record.lsn,
            prev: record.header.prev,
            xid: record.header.xid,
            rmgr: &rmgr,
            operation: &operation,
            total_length: record.header.total_length,
            main_length: record.main_data.len() as u32,
            blocks: &blocks(&record, with_data),
            main_data: record.main_data,
        };
        match made.push(&told, &mut out) {
            // A crash left the beginning of a record there: nobody who asks the server lives to see it.
            Err(Untold::Hole(..)) if operation == "OVERWRITE_CONTRECORD" => break,
            result => result.unwrap(),
        }
        end = record.end;
    }
    let start = first.align_down(u64::from(size));
    let segments = out.chunks(size as usize).enumerate().map(|(index, bytes)| {
        let at = start.advance(index as u64 * u64::from(size));
        let mut bytes = bytes.to_vec();
        bytes.resize(size as usize, 0);
        (SegmentName::holding(at, golden.segments[0].0.timeline, size), bytes)
    });
    (segments.collect(), Range { start: Some(first), end: Some(end), ..Range::default() })
}

/// Of each record what does not depend on contents.
fn lines(segments: Segments, range: Range, with_split: bool) -> Vec<String> {
    let mut reader = Reader::open(segments, range).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let data: Vec<u16> = record.blocks.iter().map(|block| block.data_length).collect();
        let sum: u32 = data.iter().map(|length| u32::from(*length)).sum();
        let blocks: Vec<_> = record
            .blocks
            .iter()
            .map(|block| (block.id, block.relation, block.fork, block.block, block.image, block.will_init))
            .collect();
        let extra = (record.origin.is_some(), record.toplevel_xid.is_some());
        let parts = if with_split {
            format!("{data:?} {extra:?}")
        } else {
            format!("{}", sum + 3 * u32::from(extra.0) + 5 * u32::from(extra.1))
        };
        lines.push(format!(
            "{} {} {} {} {:?} {} {} {parts} {blocks:?}",
            record.lsn,
            record.end,
            record.header.prev,
            record.header.xid,
            names(&record),
            record.header.total_length,
            record.main_data.len(),
        ));
    }
    lines
}

#[test]
fn records_are_the_same_in_the_same_places() {
    for version in TELLING {
        let golden = Golden::load(version);
        for with_data in [true, false] {
            let (made, range) = rebuilt(&golden, version, with_data);
            let before = lines(golden.segments(), range, with_data);
            let after = lines(Segments::from_memory(made.clone()), range, with_data);
            assert_eq!(before.len(), after.len(), "{version}");
            let differing: Vec<_> =
                before.iter().zip(&after).filter(|(record, other)| record != other).collect();
            assert!(
                differing.is_empty(),
                "{version} {with_data}: {}, such as {:#?}",
                differing.len(),
                &differing[..differing.len().min(6)]
            );
            assert!(after.len() > 1000, "{version}: {}", after.len());
            // What comes before the first record is passed over, wherever a reader begins.
            let whole = lines(Segments::from_memory(made.clone()), Range::default(), with_data);
            assert_eq!(whole, after, "{version}");
            let (stats, _) = Stats::read(Arc::new(Segments::from_memory(made)), range, 1).unwrap();
            let (expected, _) = Stats::read(Arc::new(golden.segments()), range, 1).unwrap();
            assert_eq!(format!("{:?}", stats.totals()), format!("{:?}", expected.totals()), "{version}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let told = |lsn, total_length, operation| ToldRecord {
        lsn: Lsn(lsn),
        prev: Lsn(0),
        xid: 0,
        rmgr: "XLOG",
        operation,
        total_length,
        main_length: 4,
        blocks: &[],
        main_data: &[],
    };
    let start = (1 << 24) + 40;
    let make = || Rebuilder::new(PgVersion::V16, 7, 1, 1 << 24, Lsn(start));
    let mut out = Vec::new();
    assert_eq!(make().push(&told(start, 30, "NEXTOID"), &mut out), Ok(()));
    assert_eq!(out.len(), 72);
    for length in [0, 29, 31, 37, u32::MAX] {
        let refused = make().push(&told(start, length, "NEXTOID"), &mut Vec::new());
        assert_eq!(refused, Err(Untold::Length(Lsn(start), length, 30)), "{length}");
    }
    let refused = make().push(&told(start, 30, "CHECKPOINT_LATER"), &mut Vec::new());
    assert!(matches!(refused, Err(Untold::Operation(..))), "{refused:?}");
    let mut made = make();
    made.push(&told(start, 30, "NEXTOID"), &mut Vec::new()).unwrap();
    let refused = made.push(&told(start + 40, 30, "NEXTOID"), &mut Vec::new());
    assert_eq!(refused, Err(Untold::Hole(Lsn(start + 32), Lsn(start + 40))));
}
