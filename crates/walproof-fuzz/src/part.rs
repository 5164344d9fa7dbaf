//! Any bytes as a part of WAL: refused, or a part that says the same when it is written again, whose totals can be taken,
//! and which follows from no part but the one before it.

use walproof_wal::{join, Part};

/// The bytes without the checksum, which is put after them.
pub fn part(body: &[u8]) {
    let _ = Part::from_bytes(body);
    let crc = crc32c::crc32c(body).to_le_bytes();
    let Ok(part) = Part::from_bytes(&[body, &crc].concat()) else { return };
    let bytes = part.to_bytes();
    let again = Part::from_bytes(&bytes).map(|again| again.to_bytes());
    assert!(again.is_ok_and(|again| again == bytes), "written again, it differs");
    let (from, to) = part.bounds();
    if let (Ok(part), Ok(other)) = (Part::from_bytes(&bytes), Part::from_bytes(&bytes)) {
        assert!(join(part, other).is_err() || from == to, "it follows from itself");
    }
    if let Ok((stats, _)) = part.into_stats() {
        assert_eq!(stats.accounting.record_bytes, stats.totals().combined_bytes());
        assert_eq!(stats.accounting.total(), stats.end - stats.start);
    }
}
