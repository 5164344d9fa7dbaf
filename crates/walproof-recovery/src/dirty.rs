//! Pages that are dirty at the end: the checkpoint has to get all of them to the disk, those that replay
//! still holds and those that the kernel got before. Also pages that were dirty when they were dropped: at
//! the crash their file was gone or shorter, so replay had made them again.

use crate::pages::Page;
use crate::reference::{Event, Reference, DONE, NOT_REPLAYED};

/// The bits of a block's number: a block of another file begins with none.
const LAST_BLOCK: u64 = 0xFFFF_FFFF;

/// Which pages replay changed and nothing dropped afterwards.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    is_dirty: Vec<bool>,
    extensions: u64,
    pub(crate) marks: Vec<Mark>,
}

/// The counts at a mark.
#[derive(Debug)]
pub(crate) struct Mark {
    /// The dirty pages.
    pub(crate) pages: Vec<Page>,
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
        pages: usize,
    ) {
        self.is_dirty.resize(self.is_dirty.len().max(pages), false);
        let mut events = events.iter().peekable();
        for (at, reference) in (base..).zip(references) {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at) {
                self.happen(*event);
            }
            if reference.flags & (DONE | NOT_REPLAYED) == 0 {
                self.replace(reference.page, true);
            }
        }
        events.for_each(|(_, event)| self.happen(*event));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Drop(page) => self.extensions += u64::from(self.replace(page, false)),
            Event::Mark => {
                let pages = (0..).zip(&self.is_dirty).filter(|(_, is_dirty)| **is_dirty);
                let pages = pages.map(|(page, _)| page).collect();
                self.marks.push(Mark { pages, extensions: self.extensions });
            }
        }
    }

    /// The value that it had before.
    fn replace(&mut self, page: Page, is_dirty: bool) -> bool {
        self.is_dirty.get_mut(page as usize).is_some_and(|mark| std::mem::replace(mark, is_dirty))
    }
}

/// Runs of neighbouring blocks, which is how they are written (`BufferSync`, src/backend/storage/buffer/bufmgr.c, sorts
/// them; the kernel joins neighbours); `places` has fork and block of each page.
pub(crate) fn runs(pages: &[Page], places: &[(u32, u32)]) -> u64 {
    let mut blocks: Vec<u64> = pages
        .iter()
        .filter_map(|page| places.get(*page as usize))
        .map(|(fork, block)| u64::from(*fork) << 32 | u64::from(*block))
        .collect();
    blocks.sort_unstable();
    let follows = blocks
        .windows(2)
        .filter(|pair| matches!(pair, [block, next] if block + 1 == *next && next & LAST_BLOCK != 0))
        .count();
    (blocks.len() - follows) as u64
}
