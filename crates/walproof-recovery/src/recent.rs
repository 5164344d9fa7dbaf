//! Which pages were among the last few: a rough picture of what a processor's caches and TLB still hold.

use crate::pages::Page;

/// Pages that are recent: 8 MB, about the reach of a core's second-level cache and TLB.
pub const RECENT_PAGES: u32 = 1024;

/// Pages that are not distant: 32 MB, beyond which page tables and the last-level cache are no longer at hand
/// either.
pub const DISTANT_PAGES: u32 = 4096;

const NONE: u32 = u32::MAX;

/// References that missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misses {
    /// The recent pages.
    pub(crate) recent: u64,
    /// Of these, references that changed the page and were far from the one before.
    pub(crate) far: u64,
    /// All pages that are not distant, and changed the page.
    pub(crate) distant: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The page that was referenced after it, and the one before it.
    newer: Page,
    older: Page,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Recent,
    Older,
    Nowhere,
}

const UNLINKED: Link = Link { newer: NONE, older: NONE, place: Place::Nowhere };

/// The pages that were referenced last, in order of their last reference: the recent ones, then the others.
#[derive(Debug)]
pub(crate) struct Recent {
    links: Vec<Link>,
    first: Page,
    /// The last of the recent ones, and of all.
    last_recent: Page,
    last: Page,
    /// How many pages are recent and how many may be; how many pages there are and how many may be.
    recent: u32,
    recent_most: u32,
    length: u32,
    most: u32,
    misses: Misses,
}

impl Recent {
    /// Of `recent_most` recent pages among `most`.
    pub(crate) fn new(recent_most: u32, most: u32) -> Recent {
        Recent {
            links: Vec::new(),
            first: NONE,
            last_recent: NONE,
            last: NONE,
            recent: 0,
            recent_most,
            length: 0,
            most,
            misses: Misses::default(),
        }
    }

    /// Bytes that they take, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.links.capacity() * size_of::<Link>()) as u64
    }

    pub(crate) fn misses(&self) -> Misses {
        self.misses
    }

    /// The page is referenced, `is_far` from the one before; `is_done`: only its header is looked at, which is no more
    /// than a miss, wherever the rest of it is.
    #[inline]
    pub(crate) fn touch(&mut self, page: Page, is_far: bool, is_done: bool) {
        if self.first == page {
            return;
        }
        if self.links.len() <= page as usize {
            self.links.resize((page as usize + 1).next_power_of_two(), UNLINKED);
        }
        let link = self.link(page);
        if link.place != Place::Recent {
            self.misses.recent += 1;
            self.misses.far += u64::from(is_far && !is_done);
        }
        if link.place == Place::Nowhere {
            self.misses.distant += u64::from(!is_done);
            self.length += 1;
        } else {
            self.unlink(page, link);
        }
        self.put_first(page);
        if link.place != Place::Recent {
            self.recent += 1;
            if self.recent > self.recent_most {
                self.age();
            }
        }
        if self.length > self.most {
            self.forget();
        }
    }

    fn unlink(&mut self, page: Page, link: Link) {
        // It is not the first, so there is a newer one.
        self.change(link.newer, |newer| newer.older = link.older);
        self.change(link.older, |older| older.newer = link.newer);
        if self.last_recent == page {
            self.last_recent = link.newer;
        }
        if self.last == page {
            self.last = link.newer;
        }
    }

    fn put_first(&mut self, page: Page) {
        let older = self.first;
        self.change(page, |changed| *changed = Link { newer: NONE, older, place: Place::Recent });
        self.change(older, |changed| changed.newer = page);
        self.first = page;
        if older == NONE {
            self.last = page;
        }
        if self.recent == 0 {
            self.last_recent = page;
        }
    }

    /// The last of the recent pages no longer is.
    fn age(&mut self) {
        let page = self.last_recent;
        self.change(page, |changed| changed.place = Place::Older);
        self.last_recent = self.link(page).newer;
        self.recent -= 1;
    }

    /// The last of all pages leaves.
    fn forget(&mut self) {
        let page = self.last;
        self.last = self.link(page).newer;
        self.change(self.last, |changed| changed.older = NONE);
        self.change(page, |changed| *changed = UNLINKED);
        self.length -= 1;
    }

    #[inline]
    fn link(&self, page: Page) -> Link {
        self.links.get(page as usize).copied().unwrap_or(UNLINKED)
    }

    /// Does nothing if there is no such page.
    #[inline]
    fn change(&mut self, page: Page, how: impl FnOnce(&mut Link)) {
        if let Some(own) = self.links.get_mut(page as usize) {
            how(own);
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
            recent in 1u32..15,
            others in 1u32..15,
        ) {
            let mut lists = Recent::new(recent, recent + others);
            let mut list: Vec<u32> = Vec::new();
            let mut misses = Misses::default();
            for page in pages {
                let (is_far, is_done) = (page % 3 == 0, page % 5 == 0);
                lists.touch(page, is_far, is_done);
                let at = list.iter().position(|listed| *listed == page);
                if at.is_none_or(|at| at >= recent as usize) {
                    misses.recent += 1;
                    misses.far += u64::from(is_far && !is_done);
                }
                match at {
                    Some(at) => drop(list.remove(at)),
                    None => misses.distant += u64::from(!is_done),
                }
                list.insert(0, page);
                list.truncate((recent + others) as usize);
                prop_assert_eq!(lists.misses(), misses);
            }
        }
    }
}
