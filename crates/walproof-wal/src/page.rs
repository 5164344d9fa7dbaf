//! WAL pages: what stands at the beginning of every 8192 bytes.
//!
//! ```text
//! offset  bytes  field (XLogPageHeaderData, src/include/access/xlog_internal.h; the same in 13 to 19)
//!      0      2  xlp_magic     the format, and so the major version
//!      2      2  xlp_info      0x1 first is contrecord, 0x2 long header;
//!                              to 18: 0x4 backup removable, 0x8 first is overwrite contrecord;
//!                              from 19: 0x4 first is overwrite contrecord
//!      4      4  xlp_tli       timeline of the page's first record
//!      8      8  xlp_pageaddr  LSN of the page
//!     16      4  xlp_rem_len   bytes left of a record that began on an earlier page
//!     20      4  padding
//! a segment's first page goes on (long header):
//!     24      8  xlp_sysid        system identifier of the cluster
//!     32      4  xlp_seg_size     bytes in a segment
//!     36      4  xlp_xlog_blcksz  bytes in a WAL page
//! ```

use crate::bytes::Bytes;
use crate::lsn::Lsn;
use crate::version::PgVersion;

/// Bytes in a WAL page. Servers built with another `--with-wal-blocksize` are refused, by name.
pub const PAGE_SIZE: u32 = 8192;
/// Bytes of the header of most pages.
pub const SHORT_HEADER_SIZE: u32 = 24;
/// Bytes of the header of a segment's first page.
pub const LONG_HEADER_SIZE: u32 = 40;

/// The page begins with the rest of a record from the page before.
pub const FIRST_IS_CONTRECORD: u16 = 0x0001;
/// The page has a long header.
pub const LONG_HEADER: u16 = 0x0002;

/// The rest of the record from the page before is lost for good: a server that recovered without it wrote a
/// new record here instead (PostgreSQL 13.5 and 14.1 onwards). 19 gave it the bit that said until then that
/// images on the page are optional.
#[must_use]
pub fn overwrite_contrecord_flag(version: PgVersion) -> u16 {
    if version < PgVersion::V19 {
        0x0008
    } else {
        0x0004
    }
}

/// All bits that a version knows (`XLP_ALL_FLAGS`).
fn all_flags(version: PgVersion) -> u16 {
    if version < PgVersion::V19 {
        0x000F
    } else {
        0x0007
    }
}

/// A page's header, as read: nothing in it has been compared with anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// `xlp_magic`.
    pub magic: u16,
    /// `xlp_info`.
    pub info: u16,
    /// `xlp_tli`.
    pub timeline: u32,
    /// `xlp_pageaddr`.
    pub address: Lsn,
    /// `xlp_rem_len`, in bytes.
    pub remaining: u32,
    /// The rest of a long header.
    pub long: Option<LongHeader>,
}

/// What only a segment's first page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader {
    /// `xlp_sysid`.
    pub system_identifier: u64,
    /// `xlp_seg_size`, in bytes.
    pub segment_size: u32,
    /// `xlp_xlog_blcksz`, in bytes.
    pub block_size: u32,
}

impl PageHeader {
    /// Reads the header at the beginning of `page`; None when the bytes end too early.
    #[must_use]
    pub fn parse(page: &[u8]) -> Option<PageHeader> {
        let mut bytes = Bytes(page);
        let mut header = PageHeader {
            magic: bytes.u16()?,
            info: bytes.u16()?,
            timeline: bytes.u32()?,
            address: Lsn(bytes.u64()?),
            remaining: bytes.u32()?,
            long: None,
        };
        bytes.skip(4)?;
        if header.info & LONG_HEADER != 0 {
            header.long = Some(LongHeader {
                system_identifier: bytes.u64()?,
                segment_size: bytes.u32()?,
                block_size: bytes.u32()?,
            });
        }
        Some(header)
    }

    /// Bytes that the header takes.
    #[must_use]
    pub fn size(&self) -> u32 {
        if self.long.is_some() {
            LONG_HEADER_SIZE
        } else {
            SHORT_HEADER_SIZE
        }
    }

    /// Whether the info bits are ones that a server of that version knows.
    #[must_use]
    pub fn has_known_flags(&self, version: PgVersion) -> bool {
        self.info & !all_flags(version) == 0
    }

    /// Whether the page begins with the rest of a record from the page before.
    #[must_use]
    pub fn first_is_contrecord(&self) -> bool {
        self.info & FIRST_IS_CONTRECORD != 0
    }

    /// Whether a record was started before this page and given up, in WAL of that version.
    #[must_use]
    pub fn first_is_overwrite_contrecord(&self, version: PgVersion) -> bool {
        self.info & overwrite_contrecord_flag(version) != 0
    }
}

/// Bytes that the header of the page at `page` takes in an undamaged segment.
pub(crate) fn header_size_at(page: Lsn, segment_size: u32) -> u32 {
    if page.offset_in(u64::from(segment_size)) == 0 {
        LONG_HEADER_SIZE
    } else {
        SHORT_HEADER_SIZE
    }
}

/// Whether PostgreSQL could have been initialised with segments of that size (`IsValidWalSegSize`): a power
/// of two from 1 MB to 1 GB.
#[must_use]
pub fn is_segment_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (1 << 20..=1 << 30).contains(&bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_that_19_moved() {
        let header = |info: u16| {
            let mut page = [0u8; 24];
            page.iter_mut().skip(2).zip(info.to_le_bytes()).for_each(|(to, from)| *to = from);
            PageHeader::parse(&page).unwrap()
        };
        let (four, eight) = (header(0x4), header(0x8));
        for version in PgVersion::ALL {
            let is_new = version >= PgVersion::V19;
            assert_eq!(four.first_is_overwrite_contrecord(version), is_new, "{version}");
            assert_eq!(eight.first_is_overwrite_contrecord(version), !is_new, "{version}");
            assert!(four.has_known_flags(version));
            assert_eq!(eight.has_known_flags(version), !is_new, "{version}");
        }
    }

    #[test]
    fn a_header_needs_all_its_bytes() {
        let mut page = vec![0u8; 40];
        for (offset, byte) in
            [(0, 0x18), (1, 0xD1), (2, 0x02), (4, 7), (10, 0x10), (24, 9), (34, 0x10), (37, 0x20)]
        {
            *page.get_mut(offset).unwrap() = byte;
        }
        let header = PageHeader::parse(&page).unwrap();
        assert_eq!((header.magic, header.timeline, header.address), (0xD118, 7, Lsn(0x10_0000)));
        assert_eq!(
            header.long,
            Some(LongHeader { system_identifier: 9, segment_size: 0x10_0000, block_size: 8192 })
        );
        assert_eq!(header.size(), 40);
        for length in 0..40 {
            assert_eq!(PageHeader::parse(page.get(..length).unwrap()), None, "{length} bytes");
        }
        *page.get_mut(2).unwrap() = 0;
        assert_eq!(PageHeader::parse(page.get(..24).unwrap()).unwrap().size(), 24);
    }
}
