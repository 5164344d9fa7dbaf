//! Which pages were among the last few: a rough picture of what a processor's caches and TLB still hold.

use crate::pages::Page;

/// Pages that are recent: 8 MB, about the reach of a core's second-level cache and TLB (measured in docs/recovery.md).
pub const RECENT_PAGES: u32 = 1024;

/// Pages that are not distant: 64 MB, behind which page tables and the last-level cache are no longer at hand either.
pub const DISTANT_PAGES: u32 = 8192;

const NONE: u32 = u32::MAX;

/// The pages that were referenced last, in order of their last reference, and how many references missed them.
#[derive(Debug)]
pub(crate) struct Recent {
    pub(crate) capacity: u32,
    /// Neighbours in the list, by page: the one referenced after it, the one before it. `NONE, NONE` with the page
    /// not being `first`: not in the list.
    links: Vec<(u32, u32)>,
    first: u32,
    last: u32,
    length: u32,
    misses: u64,
    far_misses: u64,
}

impl Recent {
    pub(crate) fn new(capacity: u32) -> Recent {
        Recent { capacity, links: Vec::new(), first: NONE, last: NONE, length: 0, misses: 0, far_misses: 0 }
    }

    /// References that missed, and those of them that were far from the one before.
    pub(crate) fn misses(&self) -> (u64, u64) {
        (self.misses, self.far_misses)
    }

    #[inline]
    pub(crate) fn touch(&mut self, page: Page, is_far: bool) {
        if self.first == page {
            return;
        }
        if self.links.len() <= page as usize {
            self.links.resize((page as usize + 1).next_power_of_two(), (NONE, NONE));
        }
        let (newer, older) = self.link(page);
        if newer == NONE {
            // Only the first has no newer one, and it is not the first.
            self.misses += 1;
            self.far_misses += u64::from(is_far);
            if self.length == self.capacity {
                let victim = self.last;
                self.last = self.link(victim).0;
                if self.last == NONE {
                    self.first = NONE;
                } else {
                    self.set_older(self.last, NONE);
                }
                self.set(victim, (NONE, NONE));
            } else {
                self.length += 1;
            }
        } else {
            self.set_older(newer, older);
            if older == NONE {
                self.last = newer;
            } else {
                self.set_newer(older, newer);
            }
        }
        self.set(page, (NONE, self.first));
        if self.first == NONE {
            self.last = page;
        } else {
            self.set_newer(self.first, page);
        }
        self.first = page;
    }

    #[inline]
    fn link(&self, page: u32) -> (u32, u32) {
        self.links.get(page as usize).copied().unwrap_or((NONE, NONE))
    }

    #[inline]
    fn set(&mut self, page: u32, link: (u32, u32)) {
        if let Some(own) = self.links.get_mut(page as usize) {
            *own = link;
        }
    }

    #[inline]
    fn set_newer(&mut self, page: u32, newer: u32) {
        if let Some(own) = self.links.get_mut(page as usize) {
            own.0 = newer;
        }
    }

    #[inline]
    fn set_older(&mut self, page: u32, older: u32) {
        if let Some(own) = self.links.get_mut(page as usize) {
            own.1 = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_list_that_is_searched(
            pages in prop::collection::vec(0u32..40, 1..600),
            capacity in 1u32..30,
        ) {
            let mut recent = Recent::new(capacity);
            let mut list: Vec<u32> = Vec::new();
            let mut misses = (0, 0);
            for page in pages {
                recent.touch(page, page % 3 == 0);
                match list.iter().position(|one| *one == page) {
                    Some(at) => drop(list.remove(at)),
                    None => misses = (misses.0 + 1, misses.1 + u64::from(page % 3 == 0)),
                }
                list.insert(0, page);
                list.truncate(capacity as usize);
                prop_assert_eq!(recent.misses(), misses);
            }
        }
    }
}
