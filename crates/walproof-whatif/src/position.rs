//! WAL locations of a simulated server: bytes of records to LSN and back.
//!
//! PostgreSQL reserves room for records in *usable* bytes, which do not count page headers, and converts them to
//! locations (`XLogBytePosToEndRecPtr`, `XLogRecPtrToBytePos`, src/backend/access/transam/xlog.c). So does the
//! simulation: a record of another size only adds to a sum.

use walproof_wal::{Lsn, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;
const SHORT_HEADER: u64 = 24;
const LONG_HEADER: u64 = 40;
const PAGE_USABLE: u64 = PAGE - SHORT_HEADER;
const FIRST_PAGE_USABLE: u64 = PAGE - LONG_HEADER;

/// Converts for one segment size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    segment_size: u64,
    segment_usable: u64,
}

impl Positions {
    pub(crate) fn new(segment_size: u32) -> Positions {
        let segment_size = u64::from(segment_size).max(PAGE);
        let segment_usable = segment_size / PAGE * PAGE_USABLE - (LONG_HEADER - SHORT_HEADER);
        Positions { segment_size, segment_usable }
    }

    pub(crate) fn segment_size(&self) -> u64 {
        self.segment_size
    }

    /// Usable bytes before `lsn`.
    pub(crate) fn usable(&self, lsn: Lsn) -> u64 {
        let (segment, within) = (lsn.0 / self.segment_size, lsn.0 % self.segment_size);
        let (page, offset) = (within / PAGE, within % PAGE);
        let before = match page {
            0 => offset.saturating_sub(LONG_HEADER),
            _ => FIRST_PAGE_USABLE + (page - 1) * PAGE_USABLE + offset.saturating_sub(SHORT_HEADER),
        };
        segment * self.segment_usable + before
    }

    /// Where a record ends after so many usable bytes.
    pub(crate) fn end_lsn(&self, usable: u64) -> Lsn {
        let (segment, left) = (usable / self.segment_usable, usable % self.segment_usable);
        let within = match left.checked_sub(FIRST_PAGE_USABLE) {
            _ if left == 0 => 0,
            None => left + LONG_HEADER,
            Some(0) => PAGE,
            Some(behind) => {
                let (pages, rest) = (behind / PAGE_USABLE, behind % PAGE_USABLE);
                PAGE + pages * PAGE + if rest == 0 { 0 } else { rest + SHORT_HEADER }
            }
        };
        Lsn(segment * self.segment_size + within)
    }

    /// Number of the segment that holds the end of so many usable bytes.
    pub(crate) fn segment(&self, usable: u64) -> u64 {
        usable / self.segment_usable
    }

    /// Usable bytes before segment `number`.
    pub(crate) fn segment_start(&self, number: u64) -> u64 {
        number.saturating_mul(self.segment_usable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_bytes_of_pages_and_segments() {
        let positions = Positions::new(1 << 20);
        for (lsn, usable) in [(0, 0), (40, 0), (48, 8), (8192, 8152), (8192 + 24, 8152), (8192 + 32, 8160)] {
            assert_eq!(positions.usable(Lsn(lsn)), usable, "{lsn}");
        }
        assert_eq!(positions.usable(Lsn(1 << 20)), 128 * 8168 - 16);
        assert_eq!(positions.end_lsn(128 * 8168 - 16), Lsn(1 << 20));
        assert_eq!(positions.end_lsn(8152), Lsn(8192));
        assert_eq!(positions.end_lsn(8153), Lsn(8192 + 25));
    }

    proptest! {
        #[test]
        fn there_and_back(usable in 0u64..1 << 40, bits in 20u32..=30) {
            let positions = Positions::new(1 << bits);
            let lsn = positions.end_lsn(usable);
            prop_assert_eq!(positions.usable(lsn), usable);
            prop_assert_eq!(positions.segment(usable), positions.usable(lsn) / positions.segment_usable);
        }
    }
}
