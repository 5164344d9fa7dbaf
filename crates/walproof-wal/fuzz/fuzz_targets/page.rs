//! Any bytes as a segment: pages, links and checksums that are wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walproof_wal::{Range, Reader, SegmentName, Segments};

fuzz_target!(|bytes: &[u8]| {
    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, bytes.to_vec())]);
    let Ok(mut reader) = Reader::open(segments, Range::default()) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.end > record.lsn);
    }
    assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
});
