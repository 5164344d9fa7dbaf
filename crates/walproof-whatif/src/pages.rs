//! What is known about each page that the recording touches, in 8 bytes a page.
//!
//! A sample of pages, which are far from each other, stands in a map instead, at about 30 bytes a page.
//!
//! Memory is at most about a thousandth of the database (`PageTable`).

use rustc_hash::FxHashMap;
use walproof_wal::{ForkNumber, PageTable};

const SIZE_BITS: u32 = 16;

/// A page: where it was last touched, and how large its image would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page(u64);

impl Page {
    /// Bytes of the recording up to the end of the last record that touched it; 0 when none did yet.
    pub(crate) fn touched(self) -> i64 {
        (self.0 >> SIZE_BITS) as i64
    }

    /// Bytes that an image would take without compression; None when unknown.
    pub(crate) fn size(self) -> Option<u16> {
        let size = (self.0 & 0xFFFF) as u16;
        (size != 0).then_some(size)
    }

    pub(crate) fn new(touched: u64, size: Option<u16>) -> Page {
        Page(touched << SIZE_BITS | u64::from(size.unwrap_or(0)))
    }
}

/// The pages of a recording: all of them, or a sample.
#[derive(Debug)]
pub(crate) enum Pages {
    All(AllPages),
    Some(FxHashMap<(ForkNumber, u32), Page>),
}

impl Pages {
    pub(crate) fn new(is_sample: bool) -> Pages {
        if is_sample {
            Pages::Some(FxHashMap::default())
        } else {
            Pages::All(AllPages { table: PageTable::new(Page::default()), distinct: 0 })
        }
    }

    /// The page; one that no record touched when it is new.
    #[inline]
    pub(crate) fn page(&mut self, fork: ForkNumber, block: u32) -> &mut Page {
        match self {
            Pages::All(all) => all.page(fork, block),
            Pages::Some(some) => some.entry((fork, block)).or_default(),
        }
    }

    /// Pages that were touched and are held.
    pub(crate) fn distinct(&self) -> u64 {
        match self {
            Pages::All(all) => all.distinct,
            Pages::Some(some) => some.len() as u64,
        }
    }

    /// Lets go the pages of a sample that are not wanted any more; how many of the fork are left.
    pub(crate) fn retain(&mut self, fork: ForkNumber, is_wanted: impl Fn(u32) -> bool) -> u64 {
        let mut left = 0;
        if let Pages::Some(some) = self {
            some.retain(|&(fork_of_page, block), _| {
                let stays = fork_of_page != fork || is_wanted(block);
                left += u64::from(stays && fork_of_page == fork);
                stays
            });
        }
        left
    }

    /// Bytes that the table takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Pages::All(all) => all.table.memory_bytes(),
            Pages::Some(some) => some.capacity() as u64 * 19,
        }
    }
}

#[derive(Debug)]
pub(crate) struct AllPages {
    table: PageTable<Page>,
    distinct: u64,
}

impl AllPages {
    #[inline]
    fn page(&mut self, fork: ForkNumber, block: u32) -> &mut Page {
        let page = self.table.page(fork, block);
        if *page == Page::default() {
            self.distinct += 1;
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use walproof_wal::{Forks, RelFileLocator};

    proptest! {
        #[test]
        fn a_map_by_another_name(touches in prop::collection::vec((0u32..5, 0u8..2, 0u32..10_000, 1u64..1 << 40, 0u16..8193), 1..500), is_sample: bool) {
            let (mut pages, mut forks) = (Pages::new(is_sample), Forks::default());
            let mut model: HashMap<(u32, u8, u32), (u64, u16)> = HashMap::new();
            for (relation, fork, block, touched, size) in touches {
                let locator = RelFileLocator { tablespace: 1663, database: 5, relation };
                let number = forks.number(locator, fork);
                let page = pages.page(number, block);
                let known = model.get(&(relation, fork, block)).copied().unwrap_or_default();
                prop_assert_eq!((page.touched() as u64, page.size().unwrap_or(0)), known);
                *page = Page::new(touched, (size != 0).then_some(size));
                model.insert((relation, fork, block), (touched, size));
            }
            prop_assert_eq!(pages.distinct(), model.len() as u64);
        }
    }
}
