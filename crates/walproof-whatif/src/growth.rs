//! How a record changes the size of a page's image, for pages whose image the recording does not hold.
//!
//! An image leaves out the unused middle of a page, so its size is the used part. What the recording's own images
//! show is exact; between them it is followed through the records. The rules were fitted to measured runs
//! (bench/whatif); where a record removes an unknown amount, the size is forgotten and the mean of the
//! relation stands in.

use walproof_wal::{BlockRef, PgVersion, Record, BLOCK_SIZE, VISIBILITY_MAP};

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

/// Bytes of a table's tuples, on average, with their line pointers where these come and go with them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuples {
    /// Those that records add.
    pub(crate) added: Option<u32>,
    /// Those on pages: what pruning takes.
    pub(crate) present: Option<u32>,
}

/// The page's size after the record, as far as it can be told.
pub(crate) fn size_after(
    record: &Record<'_>,
    block: &BlockRef,
    before: Option<u16>,
    tuples: Tuples,
) -> Option<u16> {
    match block.image {
        Some(image) => Some(image.uncompressed_length().max(1)),
        None => followed_size(record, block, before, tuples),
    }
}

/// The same, without a look at the image that the record may carry.
pub(crate) fn followed_size(
    record: &Record<'_>,
    block: &BlockRef,
    before: Option<u16>,
    tuples: Tuples,
) -> Option<u16> {
    if block.fork == VISIBILITY_MAP {
        // Registered as a page without a standard header, so without a hole (`XLogRegisterBuffer`, xloginsert.c).
        return Some(BLOCK_SIZE);
    }
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
        // On the same page only what differs is in the record.
        (HEAP, _) if info & 0x70 == 0x20 && block.id == 0 => {
            limited(known + if moves_row(record) { inserted(data) } else { tuples.added.unwrap_or(0) })
        }
        (HEAP2, _) if info & 0x70 == 0x50 => limited(known + multi_inserted(record, data)),
        (HEAP2, 0x10..=0x30) => match (pruned(record, block), tuples.present) {
            (Pruned::Nothing, _) => before,
            (Pruned::Tuples(count), Some(tuple)) => {
                limited(known.saturating_sub(count * tuple).max(PAGE_HEADER))
            }
            _ => None,
        },
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

/// The bytes that a record adds to its page for a tuple of a table: what a tuple of the relation takes.
pub(crate) fn tuple_bytes(record: &Record<'_>, block: &BlockRef) -> Option<u32> {
    let is_new = block.id == 0
        && record.header.rmgr.0 == HEAP
        && (record.header.info & 0x70 == 0x00 || record.header.info & 0x70 == 0x20 && moves_row(record));
    (is_new && block.image.is_none() && block.data_length > 0).then(|| inserted(u32::from(block.data_length)))
}

/// Whether Heap/UPDATE puts the new row on another page than the old one: then it refers to that page too.
/// Blocks 2 and 3 are of the visibility map.
fn moves_row(record: &Record<'_>) -> bool {
    record.blocks.iter().any(|block| block.id == 1)
}

/// What pruning took from a page.
enum Pruned {
    /// No tuple: line pointers at most, or tuples were frozen.
    Nothing,
    /// So many tuples.
    Tuples(u32),
    /// It cannot be told.
    Unknown,
}

/// HEAP2/CLEAN in 13 and PRUNE in 14 to 16 have, in the block's data, pairs of offsets for redirections and then
/// offsets of tuples that are dead and unused now; the first two numbers are in the main data. From 17 each list is
/// preceded by its length, and flags say which lists there are ([`Record::prune_flags`]).
fn pruned(record: &Record<'_>, block: &BlockRef) -> Pruned {
    const CLEANUP: u8 = 0x30;
    let info = record.header.info & 0xF0;
    let main = record.main_data;
    let pair = |at: usize| Some(u32::from(u16::from_le_bytes([*main.get(at)?, *main.get(at + 1)?])));
    if record.version < PgVersion::V17 {
        if info != 0x10 {
            // FREEZE_PAGE, and VACUUM and CLEANUP_INFO, which take line pointers.
            return Pruned::Nothing;
        }
        return match (pair(4), block.data_length) {
            // A redirection may take a tuple or follow one that was taken before.
            (Some(0), data) => Pruned::Tuples(u32::from(data) / 2),
            _ => Pruned::Unknown,
        };
    }
    let flags = record.prune_flags().unwrap_or_default();
    if info == CLEANUP || !flags.prunes() {
        return Pruned::Nothing;
    }
    if flags.freezes || flags.redirects {
        return Pruned::Unknown;
    }
    let lists = u32::from(flags.kills) + u32::from(flags.frees);
    Pruned::Tuples((u32::from(block.data_length) / 2).saturating_sub(lists))
}

/// A tuple for which the record has so many bytes of data.
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
    let each = (data / count).saturating_sub(MULTI_RECORD_HEADER) + TUPLE_HEADER;
    count * (align(each) + LINE_POINTER)
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
