//! What is done to a relation, as far as it causes storms of WAL: rows that are updated, rows that are frozen,
//! and keys that come into an index.

use walproof_wal::{PgVersion, PruneFlags, Record, RmgrId};

const HEAP_UPDATE: u8 = 0x20;
const HEAP_HOT_UPDATE: u8 = 0x40;
/// Bits of a record's info that tell operations of heaps apart (src/include/access/heapam_xlog.h).
const HEAP_OPERATION: u8 = 0x70;
/// Bits that tell those of others apart.
const OPERATION: u8 = 0xF0;
const HASH: RmgrId = RmgrId(12);
const GIST: RmgrId = RmgrId(14);
const SPGIST: RmgrId = RmgrId(16);

/// What is done to a relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Records that update a row.
    pub updates: u64,
    /// Bytes of these, images included.
    pub update_bytes: u64,
    /// Runs of them by the same transaction. Many updates in each run mean a transaction that changes many
    /// rows.
    pub update_runs: u64,
    /// Records that freeze rows.
    pub freezes: u64,
    /// Bytes of these, images included.
    pub freeze_bytes: u64,
    /// Records that bring a key into an index.
    pub keys: u64,
    /// Those with an image of the key's page.
    pub key_images: u64,
    /// Bytes of these images.
    pub key_image_bytes: u64,
}

/// Counts them for a relation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Following {
    pub(crate) changes: Changes,
    /// The transaction of the last update.
    xid: u32,
}

/// What a record does that is counted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Update,
    Freeze,
    Key,
}

impl Change {
    #[inline]
    pub(crate) fn of(record: &Record<'_>) -> Option<Change> {
        let header = &record.header;
        match header.rmgr {
            RmgrId::HEAP if updates(header.info) => Some(Change::Update),
            RmgrId::HEAP2 if freezes(record.version, header.info, record.prune_flags()) => {
                Some(Change::Freeze)
            }
            rmgr if brings_key(rmgr, header.info) => Some(Change::Key),
            _ => None,
        }
    }
}

/// Of Heap.
fn updates(info: u8) -> bool {
    matches!(info & HEAP_OPERATION, HEAP_UPDATE | HEAP_HOT_UPDATE)
}

/// Of Heap2: FREEZE_PAGE is 0x20 in 13 and 0x30 in 14 to 16; from 17 pruning and freezing are one record.
fn freezes(version: PgVersion, info: u8, pruned: Option<PruneFlags>) -> bool {
    if version >= PgVersion::V17 {
        return pruned.is_some_and(|flags| flags.freezes);
    }
    info & HEAP_OPERATION == if version < PgVersion::V14 { 0x20 } else { 0x30 }
}

/// Not what cleans an index, builds it or only sets hints in it: these write images, too, wherever its keys
/// lie (src/include/access/nbtxlog.h, hash_xlog.h, ginxlog.h, gistxlog.h, spgxlog.h).
fn brings_key(rmgr: RmgrId, info: u8) -> bool {
    let operation = info & OPERATION;
    match rmgr {
        // Into a leaf, with a split of it to the left or right, or into a list of rows.
        RmgrId::BTREE => matches!(operation, 0x00 | 0x30..=0x50),
        HASH | RmgrId::GIN => operation == 0x20,
        // A page is changed, or split.
        GIST => matches!(operation, 0x00 | 0x30),
        SPGIST => operation == 0x10,
        _ => false,
    }
}

impl Following {
    /// One more, of that many bytes, of which so many are an image of its first page, by that transaction.
    #[inline]
    pub(crate) fn add(&mut self, change: Change, bytes: u64, image_bytes: u64, xid: u32) {
        let changes = &mut self.changes;
        match change {
            Change::Update => {
                changes.updates += 1;
                changes.update_bytes += bytes;
                changes.update_runs += u64::from(self.xid != xid);
                self.xid = xid;
            }
            Change::Freeze => {
                changes.freezes += 1;
                changes.freeze_bytes += bytes;
            }
            Change::Key => {
                changes.keys += 1;
                changes.key_images += u64::from(image_bytes > 0);
                changes.key_image_bytes += image_bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezing_is_known_in_every_version() {
        assert!(freezes(PgVersion::V13, 0x20, None));
        assert!(!freezes(PgVersion::V13, 0x30, None), "CLEANUP_INFO");
        assert!(!freezes(PgVersion::V14, 0x20, None), "VACUUM");
        assert!(freezes(PgVersion::V16, 0x30, None));
        let kills = PruneFlags { kills: true, ..PruneFlags::default() };
        assert!(freezes(PgVersion::V18, 0x20, Some(PruneFlags { freezes: true, ..kills })));
        assert!(!freezes(PgVersion::V18, 0x30, Some(kills)));
        assert!(!freezes(PgVersion::V18, 0x30, None), "cut off");
    }

    #[test]
    fn an_update_is_told_by_its_operation_whatever_its_flags() {
        assert!([0x20, 0x40, 0xA0, 0xC0].into_iter().all(updates));
        assert!(![0x00, 0x10, 0x60, 0x70, 0x80].into_iter().any(updates));
    }

    #[test]
    fn what_cleans_or_builds_an_index_brings_no_key() {
        assert!([0x00, 0x30, 0x40, 0x50].into_iter().all(|info| brings_key(RmgrId::BTREE, info)));
        // Deduplication, deletes, VACUUM, pages that become free; images of hints and of a new index.
        assert!(![0x10, 0x60, 0x70, 0x80, 0xC0, 0xD0].into_iter().any(|op| brings_key(RmgrId::BTREE, op)));
        assert!(![0xA0, 0xB0].into_iter().any(|info| brings_key(RmgrId::XLOG, info)));
        assert!(brings_key(RmgrId::GIN, 0x20) && !brings_key(RmgrId::GIN, 0x40));
        assert!(brings_key(SPGIST, 0x10) && !brings_key(SPGIST, 0x60));
    }

    #[test]
    fn a_run_ends_where_another_transaction_updates() {
        let mut following = Following::default();
        for xid in [7, 7, 7, 9, 7] {
            following.add(Change::Update, 100, 0, xid);
        }
        following.add(Change::Freeze, 30, 0, 0);
        for image_bytes in [0, 8000, 0] {
            following.add(Change::Key, 64 + image_bytes, image_bytes, 9);
        }
        let expected = Changes {
            updates: 5,
            update_bytes: 500,
            update_runs: 3,
            freezes: 1,
            freeze_bytes: 30,
            keys: 3,
            key_images: 1,
            key_image_bytes: 8000,
        };
        assert_eq!(following.changes, expected);
    }
}
