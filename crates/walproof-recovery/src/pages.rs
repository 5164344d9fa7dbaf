//! Numbers of pages, in order of first appearance: what the simulations know of a page stands in arrays.

use walproof_wal::{ForkNumber, Forks, PageTable, RelFileLocator};

const NONE: u32 = u32::MAX;
/// Blocks within which a reference follows the one before in the same fork.
pub(crate) const NEAR_BLOCKS: u32 = 8;

/// Number of a page.
pub(crate) type Page = u32;

/// The pages that references name: 4 bytes for each of 64 neighbours of which one was touched, and 8 for each page.
#[derive(Debug)]
pub(crate) struct Pages {
    forks: Forks,
    /// Pages of each fork, in order of first appearance, and the block that was named last.
    of_fork: Vec<(Vec<Page>, u32)>,
    numbers: PageTable<Page>,
    /// Fork and block of each page.
    places: Vec<(ForkNumber, u32)>,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        Pages {
            forks: Forks::default(),
            of_fork: Vec::new(),
            numbers: PageTable::new(NONE),
            places: Vec::new(),
        }
    }

    /// The page's number, whether it is a new one, and whether it is far from the block of that fork that was
    /// named before it.
    #[inline]
    pub(crate) fn number(&mut self, relation: RelFileLocator, fork: u8, block: u32) -> (Page, bool, bool) {
        let fork = self.forks.number(relation, fork);
        if self.of_fork.len() <= fork as usize {
            self.of_fork.resize(fork as usize + 1, (Vec::new(), NONE));
        }
        let mut is_far = true;
        if let Some((_, last)) = self.of_fork.get_mut(fork as usize) {
            is_far = block.abs_diff(*last) > NEAR_BLOCKS;
            *last = block;
        }
        let page = self.numbers.page(fork, block);
        if *page != NONE {
            return (*page, false, is_far);
        }
        *page = self.places.len() as u32;
        self.places.push((fork, block));
        if let Some((pages, _)) = self.of_fork.get_mut(fork as usize) {
            pages.push(*page);
        }
        (*page, true, is_far)
    }

    /// The pages of a relation's fork from that block on, as far as references named them.
    pub(crate) fn of_relation(
        &self,
        relation: RelFileLocator,
        fork: u8,
        first_block: u32,
    ) -> impl Iterator<Item = Page> + '_ {
        let pages = self.forks.find(relation, fork).and_then(|fork| self.of_fork.get(fork as usize));
        pages
            .into_iter()
            .flat_map(|(pages, _)| pages)
            .copied()
            .filter(move |page| self.places.get(*page as usize).is_some_and(|place| place.1 >= first_block))
    }

    /// Fork and block of a page.
    #[inline]
    pub(crate) fn place(&self, page: Page) -> Option<(ForkNumber, u32)> {
        self.places.get(page as usize).copied()
    }

    /// The number of a block's page, if a reference named it.
    #[inline]
    pub(crate) fn find(&self, fork: ForkNumber, block: u32) -> Option<Page> {
        self.numbers.find(fork, block).filter(|page| *page != NONE)
    }

    /// Bytes that they take, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.numbers.memory_bytes() + self.places.capacity() as u64 * 12
    }

    /// The relations' forks of a database.
    pub(crate) fn of_database(&self, database: u32) -> Vec<(RelFileLocator, u8)> {
        self.forks.iter().filter(|(relation, _)| relation.database == database).collect()
    }

    /// Fork number and block of each page, by its number.
    pub(crate) fn into_places(self) -> Vec<(u32, u32)> {
        self.places
    }

    pub(crate) fn count(&self) -> u64 {
        self.places.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn equal_pages_have_equal_numbers(
            touches in prop::collection::vec((0u32..4, 0u8..3, 0u32..5_000), 1..400),
            first_block in 0u32..5_000,
        ) {
            let mut pages = Pages::new();
            let mut model: HashMap<(u32, u8, u32), u32> = HashMap::new();
            let mut last: HashMap<(u32, u8), u32> = HashMap::new();
            let locator = |relation| RelFileLocator { tablespace: 1663, database: 5, relation };
            for &(relation, fork, block) in &touches {
                let next = model.len() as u32;
                let expected = *model.entry((relation, fork, block)).or_insert(next);
                let (page, is_new, is_far) = pages.number(locator(relation), fork, block);
                prop_assert_eq!((page, is_new), (expected, expected == next));
                let before = last.insert((relation, fork), block);
                prop_assert_eq!(is_far, before.is_none_or(|before| block.abs_diff(before) > NEAR_BLOCKS));
            }
            let found: Vec<u32> = pages.of_relation(locator(1), 0, first_block).collect();
            let mut expected: Vec<u32> = model
                .iter()
                .filter(|((relation, fork, block), _)| (*relation, *fork) == (1, 0) && *block >= first_block)
                .map(|(_, page)| *page)
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(pages.count(), model.len() as u64);
        }
    }
}
