//! What is done to a table, as far as it causes storms of WAL: rows that are updated, and rows that are
//! frozen.

use walproof_wal::{PgVersion, PruneFlags, Record, RmgrId};

const HEAP_UPDATE: u8 = 0x20;
const HEAP_HOT_UPDATE: u8 = 0x40;
/// Bits of a record's info that tell operations of heaps apart (src/include/access/heapam_xlog.h).
const HEAP_OPERATION: u8 = 0x70;

/// What is done to a table.
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
}

/// Counts them for a table.
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

impl Following {
    /// One more, of that many bytes, by that transaction.
    #[inline]
    pub(crate) fn add(&mut self, change: Change, bytes: u64, xid: u32) {
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
    fn a_run_ends_where_another_transaction_updates() {
        let mut following = Following::default();
        for xid in [7, 7, 7, 9, 7] {
            following.add(Change::Update, 100, xid);
        }
        following.add(Change::Freeze, 30, 0);
        let expected =
            Changes { updates: 5, update_bytes: 500, update_runs: 3, freezes: 1, freeze_bytes: 30 };
        assert_eq!(following.changes, expected);
    }
}
