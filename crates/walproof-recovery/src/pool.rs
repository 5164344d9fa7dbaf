//! `shared_buffers` during recovery: a clock sweep, and the prefetcher that looks ahead of it.
//!
//! Only the startup process uses the buffers then, so their order is known. Each reference pins its buffer once:
//! usage counts grow to 5, a new page begins with 1 (`PinBuffer` and `BufferAlloc`, src/backend/storage/buffer/bufmgr.c).
//! Buffers that were never used, and those of dropped relations, go first (`StrategyGetBuffer`, freelist.c).
//!
//! The prefetcher (`XLogPrefetcherNextBlock`, src/backend/access/transam/xlogprefetcher.c, the same in 15 to 18)
//! looks up to 4 * `maintenance_io_concurrency` references ahead. One with an image, one that is initialised and one
//! of another fork it passes over *before* it remembers the block, so the next bare reference to that page
//! is found neither among the 4 last blocks nor, not being replayed yet, in `shared_buffers`: the page is fetched though
//! replay will build it from its image.
//!
//! Where the prefetcher finds the page in a buffer, replay takes that buffer without looking the page up again
//! (`ReadRecentBuffer`), and that way, through `PinBuffer_Locked`, its usage count does not grow (14 to 18): pages that come
//! again and again leave `shared_buffers` earlier than with `recovery_prefetch=off`.

use crate::pages::Page;
use crate::reference::{Event, Reference, BUILT, DONE, FAR, LAST, NOT_PREFETCHED, NOT_REPLAYED};

const NONE: Page = u32::MAX;
/// `BM_MAX_USAGE_COUNT`.
const USAGE_MOST: u8 = 5;
/// `XLOGPREFETCHER_SEQ_WINDOW_SIZE`.
const WINDOW: usize = 4;
/// `XLOGPREFETCHER_DISTANCE_MULTIPLIER`.
pub(crate) const DISTANCE_MULTIPLIER: u32 = 4;
/// The most that `maintenance_io_concurrency` can be.
const CONCURRENCY_MOST: u32 = 1000;
/// Block references of a record, at most (`XLR_MAX_BLOCK_ID` + 1).
pub(crate) const RECORD_MOST: usize = 33;

// What is known of a page, in 4 bytes: where there are many, waiting for them is what takes the time.

/// Number of the page's buffer; all bits are set where it has none (4 TB of pages: no recording fills more).
const BUFFER: u32 = CACHED - 1;
/// The kernel has the page, read or written.
const CACHED: u32 = 1 << 29;
/// The page was counted as one that comes from the disk.
const FROM_DISK: u32 = 1 << 30;
/// The page was written to the kernel.
const WRITTEN: u32 = 1 << 31;

// What is known of a buffer, in a byte.

/// Usage count of its page.
const USAGE: u8 = 7;
/// The page came far from the one before.
const CAME_FAR: u8 = 8;
/// The page is dirty.
const DIRTY: u8 = 16;

/// What replay does with `shared_buffers` of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWork {
    /// References whose page was not there.
    pub misses: u64,
    /// Misses that had to read the page, from the kernel's cache or the disk: neither image nor initialisation.
    pub reads: u64,
    /// Of these, pages far from the one of the same fork that was referenced before.
    pub far_reads: u64,
    /// Buffers used for the first time.
    pub frames: u64,
    /// Dirty pages that made room for others and were written to the kernel.
    pub evictions: u64,
    /// Of these, pages that came far from the one of the same fork before: they leave in about that order, and the
    /// kernel has to look each of them up.
    pub far_evictions: u64,
    /// Of the evictions, pages that were not written before: the kernel's page is clean until then.
    pub first_writes: u64,
    /// Pages that the prefetcher asked the kernel for.
    pub prefetches: u64,
    /// Of a cold cache: pages that come from the disk.
    pub disk_reads: u64,
    /// Dirty pages in the buffers at last: what the checkpoint writes. The other dirty ones the kernel got before.
    pub resident: u64,
}

/// The page is read, from the disk unless the kernel has it.
#[inline]
fn read(known: &mut u32, work: &mut PoolWork) {
    if *known & CACHED == 0 {
        *known |= CACHED | FROM_DISK;
        work.disk_reads += 1;
    }
}

/// What the prefetcher found when it looked at a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Passed over.
    Nothing,
    /// The page was not there, and was asked for.
    Fetched,
    /// The page was in this buffer.
    Found(u32),
}

/// Buffers of one size, and of larger ones as long as nothing tells them apart: until a buffer is taken from
/// another page for the first time, all sizes do the same.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) size: u32,
    /// Larger sizes that this one stands for, ascending.
    pub(crate) larger: Vec<u32>,
    /// The page of each buffer that was used, and what is known of the buffer.
    pages: Vec<Page>,
    states: Vec<u8>,
    free: Vec<u32>,
    hand: u32,
    /// What is known of each page.
    known: Vec<u32>,
    resident: u64,
    prefetcher: Option<Prefetcher>,
    /// References that were replayed.
    replayed: u64,
    work: PoolWork,
    /// At each mark: the work so far.
    pub(crate) marks: Vec<PoolWork>,
    /// Where asked for: pages that were written, each before the reference of that number.
    pub(crate) written: Option<Vec<(Page, u64)>>,
}

impl Pool {
    /// Of `size` buffers, standing for the `larger` ones; `concurrency` is `maintenance_io_concurrency`, 0
    /// without a prefetcher.
    pub(crate) fn new(size: u32, larger: &[u32], concurrency: u32) -> Pool {
        Pool {
            size: size.max(1),
            larger: larger.to_vec(),
            pages: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            hand: 0,
            known: Vec::new(),
            resident: 0,
            prefetcher: (concurrency > 0).then(|| Prefetcher::new(concurrency)),
            replayed: 0,
            work: PoolWork::default(),
            marks: Vec::new(),
            written: None,
        }
    }

    /// Whether it looks ahead.
    pub(crate) fn prefetches(&self) -> bool {
        self.prefetcher.is_some()
    }

    /// Replays the whole records among `references`, of which the first is number `base` of the stream, up to
    /// number `until`; the others are there to be looked ahead at. `pages`: numbers of pages are below that.
    /// The pool of a larger size, where this one no longer stands for it: it has the same piece yet to replay.
    pub(crate) fn replay(
        &mut self,
        references: &[Reference],
        base: u64,
        until: u64,
        events: &[(u64, Event)],
        pages: usize,
    ) -> Option<Pool> {
        let mut other = None;
        self.known.resize(self.known.len().max(pages), BUFFER);
        let replayed = self.replayed;
        let mut events = events.iter().skip_while(|(before, _)| *before < replayed).peekable();
        let mut starts = true;
        for at in base.max(self.replayed)..until {
            if starts && !self.larger.is_empty() && self.states.len() + RECORD_MOST > self.size as usize {
                other = Some(self.part(at));
            }
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at) {
                self.happen(*event);
            }
            if starts {
                self.look_ahead(references, base, at);
            }
            let Some(reference) = references.get((at - base) as usize) else { break };
            starts = reference.flags & LAST != 0;
            if reference.flags & NOT_REPLAYED == 0 {
                self.touch(*reference, at);
            }
            self.replayed = at + 1;
        }
        for (_, event) in events {
            self.happen(*event);
        }
        other
    }

    /// The pool of the next larger size, as it is before reference number `at`.
    fn part(&mut self, at: u64) -> Pool {
        let mut larger = std::mem::take(&mut self.larger);
        let size = larger.remove(0);
        Pool { size, larger, replayed: at, ..self.clone() }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Drop(page) => self.drop_page(page),
            Event::Mark => self.marks.push(PoolWork { resident: self.resident, ..self.work }),
        }
    }

    /// Reference number `at`: the page is found, or a buffer is found for it.
    #[inline]
    fn touch(&mut self, reference: Reference, at: u64) {
        let Some(known) = self.known.get_mut(reference.page as usize) else { return };
        let changes = reference.flags & DONE == 0;
        let frame = *known & BUFFER;
        if let Some(state) = self.states.get_mut(frame as usize) {
            if changes && *state & DIRTY == 0 {
                *state |= DIRTY;
                self.resident += 1;
            }
            let is_hint = |prefetcher: &Prefetcher| prefetcher.looked_at(at) == Looked::Found(frame);
            if *state & USAGE < USAGE_MOST && !self.prefetcher.as_ref().is_some_and(is_hint) {
                *state += 1;
            }
            return;
        }
        self.work.misses += 1;
        if reference.flags & BUILT == 0 {
            self.work.reads += 1;
            self.work.far_reads += u64::from(reference.flags & FAR != 0);
            read(known, &mut self.work);
        }
        let frame = self.take_frame(at);
        let far = if reference.flags & FAR != 0 { CAME_FAR } else { 0 };
        self.hold(frame, reference.page, 1 | far | if changes { DIRTY } else { 0 });
        if let Some(known) = self.known.get_mut(reference.page as usize) {
            *known = *known & !BUFFER | frame;
        }
        self.resident += u64::from(changes);
    }

    fn hold(&mut self, frame: u32, page: Page, state: u8) {
        if let (Some(own_page), Some(own)) =
            (self.pages.get_mut(frame as usize), self.states.get_mut(frame as usize))
        {
            (*own_page, *own) = (page, state);
        }
    }

    /// A buffer for the page of reference number `before`: one that was freed, one that was never used, or the clock's
    /// next victim.
    fn take_frame(&mut self, before: u64) -> u32 {
        if let Some(frame) = self.free.pop() {
            return frame;
        }
        let used = self.states.len() as u32;
        if used < self.size.min(BUFFER) {
            self.pages.push(NONE);
            self.states.push(0);
            self.work.frames += 1;
            return used;
        }
        loop {
            let at = self.hand;
            self.hand = if at + 1 == self.size { 0 } else { at + 1 };
            let Some(state) = self.states.get_mut(at as usize) else { return at };
            if *state & USAGE > 0 {
                *state -= 1;
                continue;
            }
            let Some(page) = self.pages.get(at as usize) else { return at };
            if let Some(victim) = self.known.get_mut(*page as usize) {
                *victim |= BUFFER;
                if *state & DIRTY != 0 {
                    self.work.first_writes += u64::from(*victim & WRITTEN == 0);
                    *victim |= CACHED | WRITTEN;
                    self.work.evictions += 1;
                    self.work.far_evictions += u64::from(*state & CAME_FAR != 0);
                    self.resident -= 1;
                    if let Some(written) = &mut self.written {
                        written.push((*page, before));
                    }
                }
            }
            return at;
        }
    }

    fn drop_page(&mut self, page: Page) {
        let Some(known) = self.known.get_mut(page as usize) else { return };
        // Whose file was gone, or shorter, when the server crashed: there was nothing to be read.
        self.work.disk_reads -= u64::from(*known & FROM_DISK != 0);
        let frame = *known & BUFFER;
        *known = BUFFER;
        if let Some(state) = self.states.get(frame as usize) {
            self.resident -= u64::from(*state & DIRTY != 0);
            self.hold(frame, NONE, 0);
            self.free.push(frame);
        }
    }

    /// What the prefetcher does before the record is replayed whose first reference is number `next`.
    fn look_ahead(&mut self, references: &[Reference], base: u64, next: u64) {
        let Some(prefetcher) = &mut self.prefetcher else { return };
        prefetcher.complete(next);
        while prefetcher.has_room() {
            let Some(reference) = references.get((prefetcher.ahead - base) as usize) else { break };
            let is_passed_over =
                reference.flags & NOT_PREFETCHED != 0 || prefetcher.is_repeated(reference.page);
            let looked = match self.known.get_mut(reference.page as usize) {
                Some(known) if !is_passed_over && *known & BUFFER == BUFFER => {
                    self.work.prefetches += 1;
                    read(known, &mut self.work);
                    Looked::Fetched
                }
                Some(known) if !is_passed_over => Looked::Found(*known & BUFFER),
                _ => Looked::Nothing,
            };
            prefetcher.push(looked);
        }
    }
}

/// The queue of references that were looked at and not yet replayed (`LsnReadQueue`).
#[derive(Clone, Debug)]
struct Prefetcher {
    in_flight_most: u32,
    distance: u32,
    /// What came of each reference in the queue, by its number: a ring whose length is a power of two, no longer than
    /// needed, so that it stays in the processor's first cache.
    looked: Vec<Looked>,
    /// Next reference to be looked at, and first one in the queue.
    ahead: u64,
    tail: u64,
    in_flight: u32,
    recent: [Page; WINDOW],
    recent_at: usize,
}

impl Prefetcher {
    fn new(concurrency: u32) -> Prefetcher {
        let distance = concurrency.min(CONCURRENCY_MOST) * DISTANCE_MULTIPLIER;
        Prefetcher {
            in_flight_most: concurrency,
            distance,
            looked: vec![Looked::Nothing; (distance as usize + 1).next_power_of_two()],
            ahead: 0,
            tail: 0,
            in_flight: 0,
            recent: [NONE; WINDOW],
            recent_at: 0,
        }
    }

    /// Everything before number `next` was replayed. References of a record that was handed out before the
    /// prefetcher came to them are passed over (`XLogPrefetcherReadRecord`).
    fn complete(&mut self, next: u64) {
        while self.tail < next.min(self.ahead) {
            self.in_flight -= u32::from(self.looked_at(self.tail) == Looked::Fetched);
            self.tail += 1;
        }
        self.tail = next;
        self.ahead = self.ahead.max(next);
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.in_flight_most && self.ahead - self.tail < u64::from(self.distance)
    }

    fn push(&mut self, looked: Looked) {
        let place = self.ahead as usize & (self.looked.len() - 1);
        if let Some(slot) = self.looked.get_mut(place) {
            *slot = looked;
        }
        self.in_flight += u32::from(looked == Looked::Fetched);
        self.ahead += 1;
    }

    /// What came of reference number `at`, one of the record being replayed or behind it.
    fn looked_at(&self, at: u64) -> Looked {
        let is_known = at < self.ahead;
        let place = at as usize & (self.looked.len() - 1);
        self.looked.get(place).copied().filter(|_| is_known).unwrap_or(Looked::Nothing)
    }

    /// Whether the page is among the last four that were remembered; it is remembered if not.
    fn is_repeated(&mut self, page: Page) -> bool {
        if self.recent.contains(&page) {
            return true;
        }
        if let Some(slot) = self.recent.get_mut(self.recent_at) {
            *slot = page;
        }
        self.recent_at = (self.recent_at + 1) % WINDOW;
        false
    }
}
