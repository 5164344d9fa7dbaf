//! Records: the header, the checksum, and a record in one piece.
//!
//! ```text
//! offset  bytes  field (XLogRecord, src/include/access/xlogrecord.h; the same in 13 to 19)
//!      0      4  xl_tot_len  bytes of the whole record
//!      4      4  xl_xid      transaction, 0 for none
//!      8      8  xl_prev     LSN of the record before
//!     16      1  xl_info     high 4 bits: operation; 0x1 special rel update, 0x2 check consistency
//!     17      1  xl_rmid     resource manager
//!     18      2  padding
//!     20      4  xl_crc      CRC-32C of bytes 24.., then of bytes 0..20
//! ```
//!
//! Records begin at multiples of 8.

use crate::block::BlockRef;
use crate::bytes::Bytes;
use crate::lsn::Lsn;
use crate::rmgr::{Operation, RmgrId};
use crate::version::PgVersion;

/// Bytes in a record's header.
pub const HEADER_SIZE: usize = 24;
/// Longest record that a server can read back: it must fit one allocation (`MaxAllocSize`, 1 GB - 1).
pub(crate) const MAX_LENGTH: u32 = 0x3FFF_FFFF;
/// Records begin at multiples of this (`MAXALIGN`).
pub(crate) const ALIGNMENT: u64 = 8;

/// A record's header, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the whole record, header included.
    pub total_length: u32,
    /// Transaction that wrote it; 0 when none did.
    pub xid: u32,
    /// LSN of the record before.
    pub prev: Lsn,
    /// Operation (high 4 bits) and two flags.
    pub info: u8,
    /// Resource manager.
    pub rmgr: RmgrId,
    /// The checksum stored with the record.
    pub crc: u32,
}

impl RecordHeader {
    /// Reads the header at the beginning of `bytes`; None when they end too early.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<RecordHeader> {
        let mut bytes = Bytes(bytes.get(..HEADER_SIZE)?);
        Some(RecordHeader {
            total_length: bytes.u32()?,
            xid: bytes.u32()?,
            prev: Lsn(bytes.u64()?),
            info: bytes.u8()?,
            rmgr: RmgrId(bytes.u8()?),
            crc: {
                bytes.skip(2)?;
                bytes.u32()?
            },
        })
    }
}

/// The checksum that a whole record should carry: the data first, then the header up to the checksum.
/// None when there is no whole header.
#[must_use]
pub fn checksum(record: &[u8]) -> Option<u32> {
    let (header, data) = record.split_at_checked(HEADER_SIZE)?;
    Some(crc32c::crc32c_append(crc32c::crc32c(data), header.get(..20)?))
}

/// A record that was found in order: linked to the one before, its checksum right, its parts adding up.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Where it begins.
    pub lsn: Lsn,
    /// Where the next one may begin: the end of this one, padding included. The end of the segment for
    /// XLOG/SWITCH.
    pub end: Lsn,
    /// Its header.
    pub header: RecordHeader,
    /// The version that wrote it.
    pub version: PgVersion,
    /// Replication origin, when the change came from elsewhere.
    pub origin: Option<u16>,
    /// Top-level transaction, in the first record of a subtransaction under `wal_level=logical`.
    pub toplevel_xid: Option<u32>,
    /// The blocks it refers to.
    pub blocks: &'a [BlockRef],
    /// What the operation itself keeps, apart from the blocks.
    pub main_data: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

impl Record<'_> {
    /// What the record does.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation { version: self.version, rmgr: self.header.rmgr, info: self.header.info }
    }

    /// Bytes of full-page images, whether recovery applies them or not: pg_waldump's "FPI size".
    #[must_use]
    pub fn image_bytes(&self) -> u32 {
        self.blocks.iter().filter_map(|block| block.image).map(|image| u32::from(image.length)).sum()
    }

    /// The whole record, header included, in one piece.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The image that `block` (of this record) carries; empty without one.
    #[must_use]
    pub fn image(&self, block: &BlockRef) -> &[u8] {
        self.bytes.get(block.image_range()).unwrap_or_default()
    }

    /// The data that belongs to `block` (of this record); empty without any.
    #[must_use]
    pub fn block_data(&self, block: &BlockRef) -> &[u8] {
        self.bytes.get(block.data_range()).unwrap_or_default()
    }
}
