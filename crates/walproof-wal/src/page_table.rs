//! A value for each page of a database, found quickly: what simulations keep about the pages that WAL names.

use rustc_hash::FxHashMap;

use crate::RelFileLocator;

/// Neighbouring blocks stand together in runs of so many.
const RUN: usize = 64;
const RUN_BITS: u32 = 6;
/// How many are found again without a hash: of forks, and of runs.
const RECENT_FORKS: usize = 32;
const RECENT: usize = 512;

/// Number of a relation's fork among those of a recording.
pub type ForkNumber = u32;

/// Numbers of relations' forks, in order of first appearance.
#[derive(Debug, Default)]
pub struct Forks {
    numbers: FxHashMap<(RelFileLocator, u8), ForkNumber>,
    /// Forks that were looked for lately, by the low bits of their relation: records come back to few.
    recent: [Option<((RelFileLocator, u8), ForkNumber)>; RECENT_FORKS],
}

impl Forks {
    /// The fork's number; the next one when it is new.
    #[inline]
    pub fn number(&mut self, relation: RelFileLocator, fork: u8) -> ForkNumber {
        let key = (relation, fork);
        let slot = relation.relation as usize % RECENT_FORKS;
        if let Some(Some((recent, number))) = self.recent.get(slot) {
            if *recent == key {
                return *number;
            }
        }
        let next = self.numbers.len() as ForkNumber;
        let number = *self.numbers.entry(key).or_insert(next);
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some((key, number));
        }
        number
    }

    /// The fork's number, if it has one.
    pub fn find(&self, relation: RelFileLocator, fork: u8) -> Option<ForkNumber> {
        self.numbers.get(&(relation, fork)).copied()
    }

    /// How many forks have numbers.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The forks that have numbers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (RelFileLocator, u8)> + '_ {
        self.numbers.keys().copied()
    }
}

/// A value for each page. Memory: one value for each page of every run of 64 neighbouring blocks of which one was
/// touched, and about 30 bytes for the run.
#[derive(Debug)]
pub struct PageTable<T> {
    runs: FxHashMap<u64, u32>,
    /// Runs that were looked for lately, by the low bits of a hash: most records come back to few runs.
    recent: Vec<(u64, u32)>,
    arena: Vec<[T; RUN]>,
    empty: T,
}

impl<T: Copy> PageTable<T> {
    /// A table in which every page has the value `empty`.
    pub fn new(empty: T) -> PageTable<T> {
        PageTable {
            runs: FxHashMap::default(),
            recent: vec![(u64::MAX, 0); RECENT],
            arena: Vec::new(),
            empty,
        }
    }

    /// The value of a page.
    #[inline]
    pub fn page(&mut self, fork: ForkNumber, block: u32) -> &mut T {
        let run = self.run(key(fork, block));
        if self.arena.len() <= run {
            self.arena.resize(run + 1, [self.empty; RUN]);
        }
        let within = block as usize & (RUN - 1);
        let Some(page) = self.arena.get_mut(run).and_then(|run| run.get_mut(within)) else {
            unreachable!("a run has RUN pages")
        };
        page
    }

    /// The value of a page, if its run was touched.
    #[inline]
    pub fn find(&self, fork: ForkNumber, block: u32) -> Option<T> {
        let key = key(fork, block);
        let run = match self.recent.get(slot(key)) {
            Some(&(recent, run)) if recent == key => run,
            _ => *self.runs.get(&key)?,
        };
        self.arena.get(run as usize)?.get(block as usize & (RUN - 1)).copied()
    }

    /// Bytes that the table takes, roughly.
    pub fn memory_bytes(&self) -> u64 {
        let run = size_of::<[T; RUN]>() as u64;
        self.arena.capacity() as u64 * run + self.runs.capacity() as u64 * 17
    }

    #[inline]
    fn run(&mut self, key: u64) -> usize {
        let slot = slot(key);
        if let Some(&(recent, run)) = self.recent.get(slot) {
            if recent == key {
                return run as usize;
            }
        }
        let next = self.runs.len() as u32;
        let run = *self.runs.entry(key).or_insert(next);
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = (key, run);
        }
        run as usize
    }
}

/// The run that a block is in.
#[inline]
fn key(fork: ForkNumber, block: u32) -> u64 {
    u64::from(fork) << 32 | u64::from(block >> RUN_BITS)
}

/// Where among the runs that were looked for lately.
#[inline]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_map_by_another_name(
            touches in prop::collection::vec((0u32..5, 0u8..2, 0u32..10_000, 1u64..1 << 40), 1..500),
        ) {
            let (mut table, mut forks) = (PageTable::new(0u64), Forks::default());
            let mut model: HashMap<(u32, u8, u32), u64> = HashMap::new();
            let mut numbers: HashMap<(u32, u8), ForkNumber> = HashMap::new();
            for (relation, fork, block, value) in touches {
                let locator = RelFileLocator { tablespace: 1663, database: 5, relation };
                let next = numbers.len() as ForkNumber;
                let expected = *numbers.entry((relation, fork)).or_insert(next);
                prop_assert_eq!(forks.number(locator, fork), expected);
                prop_assert_eq!(forks.find(locator, fork), Some(expected));
                let page = table.page(expected, block);
                prop_assert_eq!(*page, model.get(&(relation, fork, block)).copied().unwrap_or_default());
                *page = value;
                prop_assert_eq!(table.find(expected, block), Some(value));
                prop_assert_eq!(table.find(expected, block ^ 1 << 20), None);
                model.insert((relation, fork, block), value);
            }
            prop_assert_eq!(forks.iter().count(), numbers.len());
        }
    }
}
