//! When pages were touched if the keys of some B-trees came in order, each larger than those before.
//!
//! Then inserts go to the last leaf, and its parent. A page that is full is followed by a new one, which needs no
//! image, so of each checkpoint's images one leaf and one parent are left. What else changes an index (deletions,
//! VACUUM) stays where it was. Splits stay as they were, too; keys in order split less often, and move less.

use rustc_hash::FxHashSet;
use walproof_wal::{BlockRef, ForkNumber, Record, RmgrId};

use crate::pages::{Page, Pages};
use crate::request::Request;

const BTREE: RmgrId = RmgrId(11);
/// XLOG_BTREE_INSERT_LEAF, SPLIT_L, SPLIT_R, INSERT_POST, DEDUP (src/include/access/nbtxlog.h).
const OF_LEAVES: [u8; 5] = [0x00, 0x30, 0x40, 0x50, 0x60];
/// XLOG_BTREE_INSERT_UPPER.
const OF_PARENTS: u8 = 0x10;
/// Stand for the last leaf and its parent, whichever they are; no relation has blocks of these numbers.
const LAST_LEAF: u32 = u32::MAX - 1;
const LAST_PARENT: u32 = u32::MAX - 2;

#[derive(Debug)]
pub(crate) struct Ordered {
    relations: FxHashSet<u32>,
    pages: Pages,
}

impl Ordered {
    /// None where no target asks for it.
    pub(crate) fn new(request: &Request<'_>) -> Option<Ordered> {
        let is_asked = request.targets.iter().any(|target| target.ordered_keys);
        is_asked.then(|| Ordered {
            relations: request.ordered.iter().copied().collect(),
            pages: Pages::new(request.most_pages.is_some()),
        })
    }

    /// Touches the page that the record would change; when it was last touched before.
    pub(crate) fn touch(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef,
        fork: ForkNumber,
        offset: u64,
    ) -> i64 {
        let number = self.place(record, block);
        std::mem::replace(self.pages.page(fork, number), Page::new(offset, None)).touched()
    }

    fn place(&self, record: &Record<'_>, block: &BlockRef) -> u32 {
        let is_ordered = record.header.rmgr == BTREE
            && block.fork == 0
            && self.relations.contains(&block.relation.relation);
        match record.header.info & 0xF0 {
            operation if is_ordered && OF_LEAVES.contains(&operation) => LAST_LEAF,
            OF_PARENTS if is_ordered => LAST_PARENT,
            _ => block.block,
        }
    }

    /// Lets go the pages of a sample that are not wanted any more.
    pub(crate) fn retain(&mut self, fork: ForkNumber, is_wanted: impl Fn(u32) -> bool) {
        self.pages.retain(fork, |block| block >= LAST_PARENT || is_wanted(block));
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pages.memory_bytes()
    }
}
