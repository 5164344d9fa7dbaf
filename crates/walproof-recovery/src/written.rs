//! Pages on disk that are newer than their records: those that the server wrote before it crashed.
//!
//! Replay passes such records over (`XLogReadBufferForRedo`, src/backend/access/transam/xlogutils.c) and leaves the page
//! clean, so nothing has to be written when it makes room for another. A page that replay builds from an image is as old
//! as the image, whatever the disk has: with `full_page_writes` nearly none is newer.
//!
//! What the server wrote is what its own `shared_buffers` had no room for. Their order is taken to be that of the
//! records; who only read, the background writer, and checkpoints in between are not known from the WAL.

use walproof_wal::PgVersion;

use crate::pages::Page;
use crate::pool::Pools;
use crate::reference::{Event, Reference, BUILT, UNMARKED};

/// Where fewer pages than one in so many are newer than a record, a second pass is not worth its time.
const WORTH_ONE_IN: usize = 100;

/// The server that crashed.
#[derive(Debug)]
pub(crate) struct Crashed {
    pools: Pools,
    /// Of each page: whether the first reference reads it, and before which reference it was written last.
    pages: Vec<(bool, u64)>,
}

impl Crashed {
    /// With so many buffers.
    pub(crate) fn new(version: PgVersion, buffers: u32) -> Crashed {
        let mut pools = Pools::new(version, &[buffers], 0);
        pools.written = Some(Vec::new());
        Crashed { pools, pages: Vec::new() }
    }

    /// As [`Pools::replay`].
    pub(crate) fn replay(
        &mut self,
        references: &[Reference],
        base: u64,
        until: u64,
        events: &[(u64, Event)],
        pages: usize,
    ) {
        for reference in references.iter().take((until - base) as usize) {
            // Pages have their numbers from the order of their first references.
            if reference.page as usize == self.pages.len() {
                self.pages.push((reference.flags & BUILT == 0, 0));
            }
        }
        self.pools.replay(references, base, until, events, pages);
        for (page, before) in self.pools.written.iter_mut().flat_map(|written| written.drain(..)) {
            if let Some(own) = self.pages.get_mut(page as usize) {
                own.1 = before;
            }
        }
        for (before, event) in events {
            if let Event::Drop(page) = event {
                // Its file is gone with what was written until then.
                if let Some(written) =
                    self.pages.get_mut(*page as usize).filter(|written| written.1 < *before)
                {
                    written.1 = 0;
                }
            }
        }
    }

    /// What it wrote, if that makes a difference to recovery.
    pub(crate) fn into_written(self) -> Option<Written> {
        let newer = self.pages.iter().filter(|(is_read, before)| *is_read && *before > 0).count();
        let is_worth = newer * WORTH_ONE_IN > self.pages.len();
        is_worth.then(|| Written { before: self.pages.into_iter().map(|(_, before)| before).collect() })
    }
}

/// Before which reference each page was written last; 0: not at all.
#[derive(Debug)]
pub(crate) struct Written {
    before: Vec<u64>,
}

impl Written {
    /// Whether the page is newer than its reference of that number, as replay comes to it.
    #[inline]
    pub(crate) fn is_newer(&mut self, page: Page, at: u64, flags: u32) -> bool {
        let Some(before) = self.before.get_mut(page as usize) else { return false };
        if flags & BUILT != 0 {
            *before = 0;
        }
        flags & UNMARKED == 0 && at < *before
    }
}
