//! Which pages are dirty, and how many runs of neighbours they make, at every moment: what [`dirty`](crate::dirty) sums up
//! at marks.

use crate::pages::{Page, Pages};
use crate::reference::{Event, Reference, DONE, NOT_REPLAYED};

#[derive(Debug, Default)]
pub(crate) struct Dirty {
    is_dirty: Vec<bool>,
    /// Dirty pages.
    pub(crate) count: u64,
    /// Runs of neighbouring blocks among them.
    pub(crate) runs: u64,
    /// Pages that were dropped after they were changed, each time that they were.
    pub(crate) extensions: u64,
}

impl Dirty {
    /// Takes the `references` of the stream from number `base` on, and the `events` among them.
    pub(crate) fn replay(
        &mut self,
        references: &[Reference],
        base: u64,
        events: &[(u64, Event)],
        pages: &Pages,
    ) {
        self.is_dirty.resize(self.is_dirty.len().max(pages.count() as usize), false);
        let mut events = events.iter().peekable();
        for (at, reference) in (base..).zip(references) {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at) {
                self.happen(*event, pages);
            }
            if reference.flags & (DONE | NOT_REPLAYED) == 0 && !self.is_dirty(reference.page) {
                let neighbours = self.neighbours(reference.page, pages);
                // A run of its own; or one longer by a page; or two that become one.
                self.runs = self.runs + 1 - neighbours;
                self.count += 1;
                self.set(reference.page, true);
            }
        }
        events.for_each(|(_, event)| self.happen(*event, pages));
    }

    fn happen(&mut self, event: Event, pages: &Pages) {
        let Event::Drop(page) = event else { return };
        if self.is_dirty(page) {
            let neighbours = self.neighbours(page, pages);
            self.runs = self.runs + neighbours - 1;
            self.count -= 1;
            self.extensions += 1;
            self.set(page, false);
        }
    }

    /// How many of the blocks before and after it are dirty.
    fn neighbours(&self, page: Page, pages: &Pages) -> u64 {
        let Some((fork, block)) = pages.place(page) else { return 0 };
        let both = [block.checked_sub(1), block.checked_add(1)];
        let found = both.into_iter().flatten().filter_map(|block| pages.find(fork, block));
        found.filter(|page| self.is_dirty(*page)).count() as u64
    }

    #[inline]
    fn is_dirty(&self, page: Page) -> bool {
        self.is_dirty.get(page as usize).copied().unwrap_or(false)
    }

    fn set(&mut self, page: Page, is_dirty: bool) {
        if let Some(mark) = self.is_dirty.get_mut(page as usize) {
            *mark = is_dirty;
        }
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.is_dirty.len() as u64
    }
}
