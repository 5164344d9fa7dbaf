//! How a record changes the size of a page's image, for pages whose image the recording does not hold.
//!
//! An image leaves out the unused middle of a page, so its size is the used part. What the recording's own images
//! show is exact; between them it is followed through the records. The rules were fitted to measured runs
//! (bench/whatif); where a record removes an unknown amount, the size is forgotten and the mean of the
//! relation stands in.

use walproof_wal::{BlockRef, PgVersion, Record, BLOCK_SIZE};

const HEAP2: u8 = 9;
const HEAP: u8 = 10;
const BTREE: u8 = 11;
const HASH: u8 = 12;
const GIN: u8 = 13;
const GIST: u8 = 14;

const PAGE_HEADER: u32 = 24;
const LINE_POINTER: u32 = 4;
const INDEX_SPECIAL: u32 = 16;
/// Bytes of a tuple's header on the page (`SizeofHeapTupleHeader`), and of what stands for it in a record
/// (`xl_heap_header`, `xl_multi_insert_tuple`).
const TUPLE_HEADER: u32 = 23;
const RECORD_HEADER: u32 = 5;
const MULTI_RECORD_HEADER: u32 = 7;

/// The page's size behind the record, as far as it can be told.
pub(crate) fn size_after(record: &Record<'_>, block: &BlockRef, before: Option<u16>) -> Option<u16> {
    match block.image {
        Some(image) => Some(image.uncompressed_length().max(1)),
        None => followed_size(record, block, before),
    }
}

/// The same, without a look at the image that the record may carry.
pub(crate) fn followed_size(record: &Record<'_>, block: &BlockRef, before: Option<u16>) -> Option<u16> {
    let (rmgr, info) = (record.header.rmgr.0, record.header.info & 0xF0);
    let data = u32::from(block.data_length);
    if block.will_init {
        return limited(match rmgr {
            HEAP2 => PAGE_HEADER + multi_inserted(record, data),
            HEAP => PAGE_HEADER + inserted(data),
            BTREE => PAGE_HEADER + INDEX_SPECIAL + with_line_pointers(data),
            _ => PAGE_HEADER + INDEX_SPECIAL + data,
        });
    }
    let known = u32::from(before?);
    match (rmgr, info) {
        (HEAP, _) if info & 0x70 == 0x00 => limited(known + inserted(data)),
        (HEAP2, _) if info & 0x70 == 0x50 => limited(known + multi_inserted(record, data)),
        (HEAP2, 0x10..=0x30) if removes_tuples(record.version, info) => None,
        (BTREE, 0x00 | 0x10 | 0x20 | 0x50) if block.id == 0 && data > 0 => {
            limited(known + align(data) + LINE_POINTER)
        }
        (BTREE, 0x30 | 0x40) if block.id == 0 => {
            let right = record.blocks.iter().find(|other| other.id == 1);
            let moved = right.map_or(0, |right| with_line_pointers(u32::from(right.data_length)));
            limited(known.saturating_sub(moved).max(PAGE_HEADER + INDEX_SPECIAL))
        }
        (BTREE, 0x60 | 0x70 | 0xC0) => None,
        (HASH, 0x20) if block.id == 0 => limited(known + align(data) + LINE_POINTER),
        (HASH, 0x50 | 0x70..=0x90) => None,
        (GIN, 0x30..=0x50 | 0x90) => None,
        (GIST, 0x00) => limited(known + data),
        (GIST, 0x10 | 0x30) => None,
        _ => before,
    }
}

/// Records that take tuples away: HEAP2/CLEAN in 13, PRUNE and VACUUM in 14 to 16, all three kinds of pruning
/// from 17.
fn removes_tuples(version: PgVersion, info: u8) -> bool {
    match version {
        PgVersion::V13 => info == 0x10,
        PgVersion::V14 | PgVersion::V15 | PgVersion::V16 => info == 0x10 || info == 0x20,
        _ => true,
    }
}

/// A tuple of which the record has so many bytes of data.
fn inserted(data: u32) -> u32 {
    align(data.saturating_sub(RECORD_HEADER) + TUPLE_HEADER) + LINE_POINTER
}

/// The tuples of MULTI_INSERT, as if all had the same length.
fn multi_inserted(record: &Record<'_>, data: u32) -> u32 {
    // `ntuples` of `xl_heap_multi_insert`: flags u8, padding, ntuples u16.
    let count = match record.main_data {
        [_, _, low, high, ..] => u32::from(u16::from_le_bytes([*low, *high])).max(1),
        _ => 1,
    };
    let one = (data / count).saturating_sub(MULTI_RECORD_HEADER) + TUPLE_HEADER;
    count * (align(one) + LINE_POINTER)
}

/// Tuples begin at multiples of 8.
fn align(length: u32) -> u32 {
    (length + 7) & !7
}

/// Index tuples and their line pointers: 4 bytes for every 20 or so.
fn with_line_pointers(data: u32) -> u32 {
    data + data / 5
}

fn limited(size: u32) -> Option<u16> {
    Some(u16::try_from(size).unwrap_or(u16::MAX).clamp(1, BLOCK_SIZE))
}
