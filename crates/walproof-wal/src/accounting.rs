//! Where the bytes of a stretch of WAL go.

use std::ops::AddAssign;

use crate::named_fields;
use crate::page::LONG_HEADER_SIZE;

named_fields! {
    /// Every byte between two records, in six kinds that add up to the distance of their LSNs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Accounting {
        /// Records: their headers, data and images.
        pub record_bytes: u64,
        /// Filling up records to multiples of 8.
        pub padding_bytes: u64,
        /// Headers of pages that do not begin a segment (24 bytes each).
        pub page_header_bytes: u64,
        /// Headers of pages that begin a segment (40 bytes each).
        pub segment_header_bytes: u64,
        /// Rests of segments that an XLOG/SWITCH left unused.
        pub switch_bytes: u64,
        /// Beginnings of records that a crashed server never finished.
        pub overwritten_bytes: u64,
    }
}

impl Accounting {
    /// The sum: the distance from the first record to the end of the last one.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.record_bytes
            + self.padding_bytes
            + self.page_header_bytes
            + self.segment_header_bytes
            + self.switch_bytes
            + self.overwritten_bytes
    }

    pub(crate) fn add_page_header(&mut self, size: u32) {
        if size == LONG_HEADER_SIZE {
            self.segment_header_bytes += u64::from(size);
        } else {
            self.page_header_bytes += u64::from(size);
        }
    }
}

impl AddAssign for Accounting {
    fn add_assign(&mut self, other: Accounting) {
        self.record_bytes += other.record_bytes;
        self.padding_bytes += other.padding_bytes;
        self.page_header_bytes += other.page_header_bytes;
        self.segment_header_bytes += other.segment_header_bytes;
        self.switch_bytes += other.switch_bytes;
        self.overwritten_bytes += other.overwritten_bytes;
    }
}
