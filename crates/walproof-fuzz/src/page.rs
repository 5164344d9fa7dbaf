//! Any bytes as a segment: pages, links and checksums that are wrong.

use walproof_wal::{Range, Reader, SegmentName, Segments};

/// Records have a length, and what was read is accounted for.
pub fn page(bytes: &[u8]) {
    read(bytes.to_vec());
}

/// Reads `file` as the first segment, plain or packed.
pub(crate) fn read(file: Vec<u8>) {
    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, file)]);
    let Ok(mut reader) = Reader::open(segments, Range::default()) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.end > record.lsn);
    }
    assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
}
