//! A record without contents: a list says what it keeps, and everything else becomes zero.
//!
//! ```text
//! kept            header (without its padding), headers of blocks, origin, top-level transaction
//! of an image     pd_lower, pd_upper and pd_special, where it is a table's page and not compressed
//! of block data   nothing
//! of main data, the beginning of:
//!   XLOG/CHECKPOINT_*                     up to the time: 72 bytes, 80 from 19 (CheckPoint, pg_control.h)
//!   Transaction/COMMIT*, ABORT*           time, flags, database, subtransactions, files (xact.h)
//!   Storage/TRUNCATE                      24 bytes (xl_smgr_truncate)
//!   Database/DROP                         4 bytes: the database
//!   Heap2: pruning, VACUUM, MULTI_INSERT  8 bytes: flags and counts (heapam_xlog.h)
//! ```
//!
//! That is what totals and simulations read (`transaction`, `visibility`, walproof-whatif, walproof-recovery). All of
//! these are numbers: locations, times, flags, counts, and numbers of transactions, databases and files.

use std::ops::Range as Bytes;

use crate::block::BlockRef;
use crate::bytes::Bytes as Fields;
use crate::image::BLOCK_SIZE;
use crate::record::{checksum, Record};
use crate::rmgr::RmgrId;
use crate::version::PgVersion;

/// Padding of the record's header.
pub(super) const PADDING: Bytes<usize> = 18..20;
/// The checksum.
pub(super) const CRC: Bytes<usize> = 20..24;
/// `pd_lower`, `pd_upper` and `pd_special` (`PageHeaderData`, src/include/storage/bufpage.h).
const PAGE_FIELDS: Bytes<usize> = 12..18;
const PAGE_HEADER: u16 = 24;

const STORAGE: RmgrId = RmgrId(2);
const DATABASE: RmgrId = RmgrId(4);
const HAS_INFO: u8 = 0x80;
const HAS_DATABASE: u32 = 0x1;
const HAS_SUBTRANSACTIONS: u32 = 0x2;
const HAS_FILES: u32 = 0x4;

/// The record with its contents blanked out and its checksum made again, and how many bytes these are.
pub(super) fn blank(record: &Record<'_>) -> (Vec<u8>, u64) {
    let mut bytes = record.bytes().to_vec();
    let mut blanked = 0;
    let mut clear = |range: Bytes<usize>| {
        if let Some(part) = bytes.get_mut(range) {
            blanked += part.len() as u64;
            part.fill(0);
        }
    };
    for block in record.blocks {
        let image = block.image_range();
        if is_table(block, record.image(block)) {
            clear(image.start..image.start + PAGE_FIELDS.start);
            clear(image.start + PAGE_FIELDS.end..image.end);
        } else {
            clear(image);
        }
        clear(block.data_range());
    }
    let end = record.bytes().len();
    let main = end - record.main_data.len();
    clear((main + kept_of_main(record)).min(end)..end);
    bytes.get_mut(PADDING).into_iter().for_each(|padding| padding.fill(0));
    seal(&mut bytes);
    (bytes, blanked)
}

/// Makes the checksum of a record that was changed.
fn seal(bytes: &mut [u8]) {
    if let (Some(crc), Some(field)) = (checksum(bytes), bytes.get_mut(CRC)) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Whether the image is one of a table's page, whose header tells how many rows it has.
fn is_table(block: &BlockRef, image: &[u8]) -> bool {
    let field = |at: usize| Some(u16::from_le_bytes([*image.get(at)?, *image.get(at + 1)?]));
    let (Some(lower), Some(upper), Some(special)) = (field(12), field(14), field(16)) else { return false };
    block.image.is_some_and(|image| image.compression.is_none())
        && special == BLOCK_SIZE
        && (PAGE_HEADER..=upper).contains(&lower)
        && upper <= special
}

/// Bytes at the beginning of the main data that are no contents.
fn kept_of_main(record: &Record<'_>) -> usize {
    let (operation, code) = (record.header.info & 0xF0, record.operation().code());
    match record.header.rmgr {
        RmgrId::XLOG if code <= 0x1 => {
            if record.version < PgVersion::V19 {
                72
            } else {
                80
            }
        }
        RmgrId::TRANSACTION if matches!(code, 0x0 | 0x2..=0x4) => {
            if operation & HAS_INFO == 0 {
                8
            } else {
                up_to_files(record.main_data).unwrap_or(12)
            }
        }
        STORAGE if operation == 0x20 => 24,
        DATABASE if operation == if record.version < PgVersion::V15 { 0x10 } else { 0x20 } => 4,
        RmgrId::HEAP2 if matches!(operation & 0x70, 0x10..=0x30 | 0x50) => 8,
        _ => 0,
    }
}

/// Whether what is kept of the main data can be told without its end, and so how much that is.
pub(super) fn kept_at_most(record: &Record<'_>) -> usize {
    match record.header.rmgr {
        RmgrId::TRANSACTION => record.main_data.len(),
        _ => kept_of_main(record).min(record.main_data.len()),
    }
}

/// Bytes of the end of a transaction up to the list of the files that it removes; None where a list is longer than
/// the record, and where there is none.
fn up_to_files(data: &[u8]) -> Option<usize> {
    let mut fields = Fields(data);
    fields.skip(8)?;
    let info = fields.u32()?;
    if info & HAS_DATABASE != 0 {
        fields.skip(8)?;
    }
    if info & HAS_SUBTRANSACTIONS != 0 {
        let count = fields.u32()? as usize;
        fields.skip(count.checked_mul(4)?)?;
    }
    if info & HAS_FILES == 0 {
        return None;
    }
    let count = fields.u32()? as usize;
    fields.skip(count.checked_mul(12)?)?;
    Some(data.len() - fields.remaining())
}
