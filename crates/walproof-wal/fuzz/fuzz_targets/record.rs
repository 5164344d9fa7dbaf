//! Any content of a record whose header and checksum are right: parts that are wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walproof_wal::{checksum, PgVersion, Range, Reader, SegmentName, Segments};

const FIRST_RECORD: usize = 40;

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (version, rmgr, info, content) = input;
    let version = PgVersion::ALL[usize::from(version) % PgVersion::ALL.len()];
    let content = &content[..content.len().min(8192 - FIRST_RECORD - 24)];
    let mut record = vec![0u8; 24];
    record[..4].copy_from_slice(&(24 + content.len() as u32).to_le_bytes());
    record[16] = info;
    record[17] = rmgr;
    record.extend(content);
    let crc = checksum(&record).unwrap_or_default();
    record[20..24].copy_from_slice(&crc.to_le_bytes());

    let mut page = vec![0u8; 8192];
    page[..2].copy_from_slice(&version.magic().to_le_bytes());
    page[2] = 2; // a long header
    page[4] = 1; // timeline
    page[8..16].copy_from_slice(&(1u64 << 20).to_le_bytes());
    page[32..36].copy_from_slice(&(1u32 << 20).to_le_bytes());
    page[36..40].copy_from_slice(&8192u32.to_le_bytes());
    page[FIRST_RECORD..FIRST_RECORD + record.len()].copy_from_slice(&record);

    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, page)]);
    let mut reader = Reader::open(segments, Range::default()).expect("the page is in order");
    if let Ok(Some(record)) = reader.next_record() {
        let parts: usize = record
            .blocks
            .iter()
            .map(|block| record.image(block).len() + record.block_data(block).len())
            .sum::<usize>()
            + record.main_data.len();
        assert!(parts + 24 <= record.bytes().len());
        assert!(!record.operation().to_string().is_empty());
    }
});
