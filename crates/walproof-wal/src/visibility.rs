//! Which blocks of heap records are there for the visibility map alone, and what pruning says that it did.
//!
//! ```text
//! to 18   Heap2/VISIBLE        block 0: visibility map, block 1: the table's page
//! from 19 Heap2/PRUNE_*        block 0: the table's page, block 1: visibility map, if bits of it are set
//!         (xl_heap_prune, src/include/access/heapam_xlog.h)
//!         17, 18  reason u8, flags u8
//!         19      flags u16: 0x0010 freeze plans, 0x0020 redirections, 0x0040 dead, 0x0080 unused,
//!                            0x0100 all-visible, 0x0200 all-frozen
//! ```
//!
//! From 19 on, and in minors of 17 and 18 since August 2026 (17.11, 18.6), records that clear bits of the map (INSERT, DELETE,
//! UPDATE, LOCK, MULTI_INSERT) refer to its block as well, after those of the table.

use crate::block::BlockRef;
use crate::record::Record;
use crate::rmgr::RmgrId;
use crate::version::PgVersion;

/// Number of the fork that holds the visibility map.
pub const VISIBILITY_MAP: u8 = 2;

const HEAP2_VISIBLE: u8 = 0x40;

/// What a record of pruning or freezing does to the table's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneFlags {
    /// Rows are frozen.
    pub freezes: bool,
    /// Line pointers lead to others now.
    pub redirects: bool,
    /// Line pointers are dead now.
    pub kills: bool,
    /// Line pointers are unused now.
    pub frees: bool,
}

impl PruneFlags {
    /// Whether rows or their line pointers go.
    #[must_use]
    pub fn prunes(self) -> bool {
        self.redirects || self.kills || self.frees
    }
}

impl Record<'_> {
    /// What Heap2/PRUNE_ON_ACCESS, PRUNE_VACUUM_SCAN or PRUNE_VACUUM_CLEANUP says that it does (from 17); None for
    /// other records.
    #[must_use]
    #[inline]
    pub fn prune_flags(&self) -> Option<PruneFlags> {
        let is_prune = self.header.rmgr == RmgrId::HEAP2 && matches!(self.header.info & 0x70, 0x10..=0x30);
        if !is_prune || self.version < PgVersion::V17 {
            return None;
        }
        let at = usize::from(self.version < PgVersion::V19);
        let flags = self.main_data.get(at).copied()?;
        let has = |bit: u8| flags & bit != 0;
        Some(PruneFlags { freezes: has(0x10), redirects: has(0x20), kills: has(0x40), frees: has(0x80) })
    }

    /// Whether the record only marks the page of `block` (of this record, and a table's) as all-visible. A server
    /// that logs no hint bits then registers the page without an image, and leaves its LSN alone
    /// (`log_heap_visible`, heapam.c; from 19 `log_heap_prune_and_freeze`, pruneheap.c).
    #[must_use]
    #[inline]
    pub fn only_marks_visible(&self, block: &BlockRef) -> bool {
        if self.header.rmgr != RmgrId::HEAP2 || block.fork != 0 {
            return false;
        }
        if self.version < PgVersion::V19 {
            return self.header.info & 0x70 == HEAP2_VISIBLE;
        }
        self.prune_flags().is_some_and(|flags| flags == PruneFlags::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::record::RecordHeader;

    fn record(version: PgVersion, info: u8, main_data: &[u8]) -> Record<'_> {
        let header =
            RecordHeader { rmgr: RmgrId::HEAP2, info, total_length: 60, xid: 0, prev: Lsn(0), crc: 0 };
        Record {
            lsn: Lsn(0),
            end: Lsn(0),
            header,
            version,
            origin: None,
            toplevel_xid: None,
            blocks: &[],
            main_data,
            bytes: &[],
        }
    }

    #[test]
    fn flags_of_pruning_moved_with_19() {
        let all = PruneFlags { freezes: true, redirects: true, kills: true, frees: true };
        // Reason 0 and flags in 18; flags in 19, with the bits of the map after them.
        for (version, main_data) in [(PgVersion::V18, [0, 0xF0]), (PgVersion::V19, [0xF0, 0x03])] {
            let found = record(version, 0x20, &main_data).prune_flags();
            assert_eq!(found, Some(all), "{version}");
            assert_eq!(record(version, 0x20, &[]).prune_flags(), None, "cut off");
            for info in [0x00, 0x40, 0x50, 0x60] {
                assert_eq!(record(version, info, &main_data).prune_flags(), None);
            }
        }
        let only_dead = PruneFlags { kills: true, ..PruneFlags::default() };
        assert_eq!(record(PgVersion::V19, 0x10, &[0x4C, 0x00]).prune_flags(), Some(only_dead));
        assert_eq!(record(PgVersion::V18, 0x10, &[0x00, 0x4C]).prune_flags(), Some(only_dead));
        assert!(only_dead.prunes() && !PruneFlags { freezes: true, ..PruneFlags::default() }.prunes());
        assert_eq!(record(PgVersion::V16, 0x10, &[0xF0, 0xF0]).prune_flags(), None);
    }

    #[test]
    fn a_page_that_is_only_marked() {
        let (table, mut map) = (BlockRef::default(), BlockRef::default());
        map.fork = VISIBILITY_MAP;
        // Operation and main data, and whether 18 and 19 only mark the page with it.
        let cases: [(u8, [u8; 2], bool, bool); 5] = [
            (0x40, [0, 0], true, false),
            // A conflict horizon, and all-visible.
            (0x20, [0x08, 0x01], false, true),
            (0x10, [0x08, 0x03], false, true),
            (0x20, [0x18, 0x01], false, false),
            (0x30, [0x80, 0x01], false, false),
        ];
        for (info, main_data, in_18, in_19) in cases {
            for (version, expected) in [(PgVersion::V18, in_18), (PgVersion::V19, in_19)] {
                let record = record(version, info, &main_data);
                assert_eq!(record.only_marks_visible(&table), expected, "{version}: {info:x} {main_data:?}");
                assert!(!record.only_marks_visible(&map));
            }
        }
    }
}
