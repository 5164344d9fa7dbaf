//! Which blocks replay makes from nothing (`REGBUF_WILL_INIT`), by operation: from the callers of `XLogRegisterBuffer`
//! in src/backend/access of 15 to 18, and held against decoded WAL by `tests/told.rs`.

use crate::rmgr::Operation;

/// Whether the operation registers the block as one that needs no image, whatever was there.
pub(super) fn will_init(operation: Operation, block: u8) -> bool {
    match (operation.rmgr.0, operation.code(), block) {
        // Heap2/MULTI_INSERT+INIT; Heap's +INIT; BRIN's +INIT.
        (9, 0xD, 0) | (10, 0x8 | 0xA | 0xC, 0) | (17, 0x0 | 0x9 | 0xA, 0) => true,
        // Btree: the right half of a split, a new root and its metapage, the metapage elsewhere.
        (11, 0x3 | 0x4, 1) | (11, 0xA, 0 | 2) | (11, 0x2, 2) => true,
        // Btree: pages that are emptied, metapages.
        (11, 0xB, 0) | (11, 0x8 | 0x9, 0 | 3) | (11, 0x9, 4) | (11, 0xE, 0) => true,
        // BRIN: a page of its map.
        (17, 0x4, 1) => true,
        // Hash: metapage, bitmap, overflow pages, new buckets.
        (12, 0x0 | 0x1, 0) | (12, 0x3, 0 | 4) | (12, 0x4, 1) => true,
        // Gin: posting trees, metapages and pending lists.
        (13, 0x1 | 0x6 | 0x7, 0) | (13, 0x8, _) => true,
        // Gist: the parts of a split. Sequence.
        (14, 0x3, 1..) | (15, 0x0, 0) => true,
        _ => false,
    }
}
