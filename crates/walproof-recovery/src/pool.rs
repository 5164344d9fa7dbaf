//! `shared_buffers` during recovery, of several sizes at once: a clock sweep for each.
//!
//! Only the startup process uses the buffers then, so their order is known. Each reference pins its buffer once:
//! usage counts grow to 5, a new page begins with 1 (`PinBuffer` and `BufferAlloc`, src/backend/storage/buffer/bufmgr.c).
//! Buffers that were never used, and those of dropped relations, go first (`StrategyGetBuffer`, freelist.c); 19 has no
//! list of them any more, so those of dropped relations wait until the clock's hand comes by.
//!
//! Where the prefetcher finds the page in a buffer, replay takes that buffer without looking the page up again
//! (`ReadRecentBuffer`), and that way, through `PinBuffer_Locked`, its usage count does not grow (14 to 18; from 19 on it
//! does): pages that come again and again leave `shared_buffers` earlier than with `recovery_prefetch=off`. A page that
//! leaves and comes back within the few references between is taken for one that stayed.
//!
//! Most references find their page in most sizes, and then the same happens in all of them. So what each size knows of
//! a page is a byte of one word, and all bytes of the word change together.

use walproof_wal::{named_fields, PgVersion};

use crate::lanes::{bit, each, LANES, ONES};
use crate::pages::Page;
use crate::prefetchers::{Look, Prefetchers};
use crate::reference::{Event, Reference, BUILT, DONE, FAR, LAST, NOT_PREFETCHED, NOT_REPLAYED};

// What is known about a page, in a byte for each size.

/// Usage count of its buffer, to 5 (`BM_MAX_USAGE_COUNT`).
const USAGE: u8 = 7;
/// The page came far from the one before.
const CAME_FAR: u8 = 8;
/// The page in the buffer is dirty.
const DIRTY: u8 = 16;
/// A buffer has the page.
const HELD: u8 = 32;
/// The page was counted as one that comes from the disk; the kernel has it since.
const FROM_DISK: u8 = 64;
/// The page was written to the kernel, which has it since.
const WRITTEN: u8 = 128;

named_fields! {
    /// What replay does with `shared_buffers` of one size.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PoolWork {
        /// References whose page was not in a buffer.
        pub misses: u64,
        /// Misses that had to read the page, from the kernel's cache or the disk, because there was neither
        /// an image nor an initialisation.
        pub reads: u64,
        /// Of these, pages far from the previously referenced one of the same fork.
        pub far_reads: u64,
        /// Buffers used for the first time.
        pub frames: u64,
        /// Dirty pages that made room for others and were written to the kernel.
        pub evictions: u64,
        /// Of these, pages that came far from the one of the same fork before: they leave in about that order, and the
        /// kernel has to look each of them up.
        pub far_evictions: u64,
        /// Of the evictions, pages that had not been written before: until then the kernel's page is clean.
        pub first_writes: u64,
        /// Pages that the prefetcher asked the kernel for.
        pub prefetches: u64,
        /// With a cold cache: pages that come from the disk.
        pub disk_reads: u64,
        /// Dirty pages in the buffers at the end, which the checkpoint writes. The kernel already has the
        /// other dirty ones.
        pub resident: u64,
    }
}

/// Buffers of several sizes.
#[derive(Debug)]
pub(crate) struct Pools {
    /// What is known about each page, and the buffers that have it.
    states: Vec<u64>,
    /// Of each page one for each size, in turn.
    frames: Vec<u32>,
    pools: Vec<Pool>,
    /// Their bits.
    lanes: u64,
    prefetchers: Option<Prefetchers>,
    /// Whether the server keeps a list of buffers that were freed, and does not count the use of one that its
    /// prefetcher found: to 18.
    is_before_19: bool,
    /// Where asked for: pages that were written, each before the reference of that number.
    pub(crate) written: Option<Vec<(Page, u64)>>,
    /// What was changed, if it is to be undone.
    journal: Option<Vec<Change>>,
}

/// What stood at a place before, or what is to be undone there. Lanes are numbers of `pools`.
#[derive(Clone, Copy, Debug)]
enum Change {
    State(Page, u64),
    Frame(usize, u32),
    /// Page of a buffer.
    Buffer(usize, u32, Page),
    /// A buffer that was free.
    Popped(usize, u32),
    /// A buffer became free.
    Pushed(usize),
    /// A buffer was used for the first time.
    Grown(usize),
}

/// Notes a change if it is to be undone.
#[inline]
fn note(journal: &mut Option<Vec<Change>>, change: Change) {
    if let Some(journal) = journal {
        journal.push(change);
    }
}

/// Buffers of one size.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) size: u32,
    /// Where its bytes begin in a word.
    shift: u32,
    /// The page of each buffer that was used.
    pages: Vec<Page>,
    free: Vec<u32>,
    hand: u32,
    work: PoolWork,
    /// At each mark: the work so far.
    pub(crate) marks: Vec<PoolWork>,
}

impl Pools {
    /// Of at most `LANES` sizes, in buffers; `concurrency` is `maintenance_io_concurrency`, 0 without a prefetcher.
    pub(crate) fn new(version: PgVersion, sizes: &[u32], concurrency: u32) -> Pools {
        let pools: Vec<Pool> =
            (0..).step_by(8).zip(sizes.iter().take(LANES)).map(|(at, size)| Pool::new(*size, at)).collect();
        let lanes = (0..pools.len()).map(bit).sum();
        Pools {
            states: Vec::new(),
            frames: Vec::new(),
            pools,
            lanes,
            prefetchers: (concurrency > 0).then(|| Prefetchers::new(concurrency, lanes)),
            is_before_19: version < PgVersion::V19,
            written: None,
            journal: None,
        }
    }

    /// Whether they look ahead.
    pub(crate) fn prefetch(&self) -> bool {
        self.prefetchers.is_some()
    }

    pub(crate) fn into_pools(self) -> Vec<Pool> {
        self.pools
    }

    /// Replays the whole records among `references`, of which the first is number `base` of the stream, up to
    /// number `until`; the others are there to be looked ahead at. `pages`: numbers of pages are below that.
    pub(crate) fn replay(
        &mut self,
        references: &[Reference],
        base: u64,
        until: u64,
        events: &[(u64, Event)],
        pages: usize,
    ) {
        self.states.resize(self.states.len().max(pages), 0);
        self.frames.resize(self.frames.len().max(pages * self.pools.len()), u32::MAX);
        let mut events = events.iter().peekable();
        let mut starts = true;
        for (at, reference) in (base..until).zip(references) {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at) {
                self.happen(*event);
            }
            if starts {
                self.look_ahead(references, base, at);
            }
            starts = reference.flags & LAST != 0;
            if reference.flags & NOT_REPLAYED == 0 {
                self.touch(*reference, at);
            }
        }
        for (_, event) in events {
            self.happen(*event);
        }
    }

    /// The work so far of each size, with what is dirty now.
    pub(crate) fn works(&self) -> Vec<(u32, PoolWork)> {
        let dirty = dirty(&self.states);
        let works = self.pools.iter().zip(dirty);
        works.map(|(pool, resident)| (pool.size, PoolWork { resident, ..pool.work })).collect()
    }

    /// What the work would be after [`Pools::replay`] of all of these, which is then undone.
    pub(crate) fn works_after(
        &mut self,
        references: &[Reference],
        base: u64,
        events: &[(u64, Event)],
        pages: usize,
    ) -> Vec<(u32, PoolWork)> {
        let before: Vec<_> = self.pools.iter().map(|pool| (pool.hand, pool.work)).collect();
        let prefetchers = self.prefetchers.clone();
        self.journal = Some(Vec::new());
        self.replay(references, base, base + references.len() as u64, events, pages);
        let works = self.works();
        for change in self.journal.take().into_iter().flatten().rev() {
            self.undo(change);
        }
        self.prefetchers = prefetchers;
        for (pool, (hand, work)) in self.pools.iter_mut().zip(before) {
            (pool.hand, pool.work) = (hand, work);
        }
        works
    }

    fn undo(&mut self, change: Change) {
        match change {
            Change::State(page, before) => put(&mut self.states, page as usize, before),
            Change::Frame(place, before) => put(&mut self.frames, place, before),
            Change::Buffer(lane, frame, before) => {
                if let Some(pool) = self.pools.get_mut(lane) {
                    put(&mut pool.pages, frame as usize, before);
                }
            }
            Change::Popped(lane, frame) => {
                self.pools.get_mut(lane).into_iter().for_each(|pool| pool.free.push(frame));
            }
            Change::Pushed(lane) => {
                self.pools.get_mut(lane).and_then(|pool| pool.free.pop());
            }
            Change::Grown(lane) => {
                self.pools.get_mut(lane).and_then(|pool| pool.pages.pop());
            }
        }
    }

    /// Bytes that they take, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let buffers: usize = self.pools.iter().map(|pool| pool.pages.len() + pool.free.len()).sum();
        (self.states.len() * 8 + self.frames.len() * 4 + buffers * 4) as u64
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Drop(page) => self.drop_page(page),
            Event::Mark => {
                let dirty = dirty(&self.states);
                for (pool, dirty) in self.pools.iter_mut().zip(dirty) {
                    pool.marks.push(PoolWork { resident: dirty, ..pool.work });
                }
            }
        }
    }

    /// Reference number `at`: the page is found, or a buffer is found for it.
    #[inline]
    fn touch(&mut self, reference: Reference, at: u64) {
        let page = reference.page as usize;
        let Some(state) = self.states.get_mut(page) else { return };
        note(&mut self.journal, Change::State(reference.page, *state));
        let there = (*state / u64::from(HELD)) & ONES;
        // 5 is the only count with both its outer bits.
        let mut grows = there & !(*state & *state >> 2);
        if let Some(prefetchers) = self.prefetchers.as_ref().filter(|_| self.is_before_19) {
            grows &= !prefetchers.found(at);
        }
        *state += grows;
        if reference.flags & DONE == 0 {
            *state |= there * u64::from(DIRTY);
        }
        for lane in each(self.lanes & !there) {
            self.miss(lane, reference, at);
        }
    }

    /// The page is read or built, in a buffer that is found for it.
    fn miss(&mut self, lane: usize, reference: Reference, at: u64) {
        let (Some(pool), Some(state)) =
            (self.pools.get_mut(lane), self.states.get_mut(reference.page as usize))
        else {
            return;
        };
        note(&mut self.journal, Change::State(reference.page, *state));
        let mut held = 1 | HELD;
        pool.work.misses += 1;
        if reference.flags & BUILT == 0 {
            pool.work.reads += 1;
            pool.work.far_reads += u64::from(reference.flags & FAR != 0);
            pool.read(state);
        }
        if reference.flags & FAR != 0 {
            held |= CAME_FAR;
        }
        if reference.flags & DONE == 0 {
            held |= DIRTY;
        }
        *state |= u64::from(held) << pool.shift;
        let frame = pool.take_frame(lane, &mut self.states, at, self.written.as_mut(), &mut self.journal);
        if let Some(held_page) = pool.pages.get_mut(frame as usize) {
            note(&mut self.journal, Change::Buffer(lane, frame, *held_page));
            *held_page = reference.page;
        }
        let place = reference.page as usize * self.pools.len() + lane;
        if let Some(held_frame) = self.frames.get_mut(place) {
            note(&mut self.journal, Change::Frame(place, *held_frame));
            *held_frame = frame;
        }
    }

    fn drop_page(&mut self, page: Page) {
        let first = page as usize * self.pools.len();
        let (Some(state), Some(frames)) =
            (self.states.get_mut(page as usize), self.frames.get(first..first + self.pools.len()))
        else {
            return;
        };
        note(&mut self.journal, Change::State(page, *state));
        for (lane, ((pool, frame), flags)) in
            self.pools.iter_mut().zip(frames).zip(state.to_le_bytes()).enumerate()
        {
            // Whose file was gone, or shorter, when the server crashed: there was nothing to be read.
            pool.work.disk_reads -= u64::from(flags & FROM_DISK != 0);
            if flags & HELD == 0 {
                continue;
            }
            if self.is_before_19 {
                pool.free.push(*frame);
                note(&mut self.journal, Change::Pushed(lane));
            } else if let Some(held_page) = pool.pages.get_mut(*frame as usize) {
                note(&mut self.journal, Change::Buffer(lane, *frame, *held_page));
                *held_page = Page::MAX;
            }
        }
        *state = 0;
    }

    /// What the prefetchers do before the record is replayed whose first reference is number `next`.
    #[inline]
    fn look_ahead(&mut self, references: &[Reference], base: u64, next: u64) {
        let Some(prefetchers) = &mut self.prefetchers else { return };
        prefetchers.complete(next);
        let mut look = |prefetchers: &mut Prefetchers, look: Look| {
            let Some(reference) = references.get((look.at - base) as usize) else { return false };
            if reference.flags & NOT_PREFETCHED != 0 || prefetchers.is_repeated(look, reference.page) {
                prefetchers.pass(look);
            } else if let Some(state) = self.states.get_mut(reference.page as usize) {
                let fetched = look.lanes & !(*state / u64::from(HELD));
                note(&mut self.journal, Change::State(reference.page, *state));
                for pool in each(fetched) {
                    if let Some(pool) = self.pools.get_mut(pool) {
                        pool.work.prefetches += 1;
                        pool.read(state);
                    }
                }
                prefetchers.look(look, fetched);
            }
            true
        };
        for lane in each(prefetchers.open_apart()) {
            while prefetchers.next_apart(lane).is_some_and(|wanted| look(prefetchers, wanted)) {}
        }
        while prefetchers.next_in_step().is_some_and(|wanted| look(prefetchers, wanted)) {}
    }
}

impl Pool {
    fn new(size: u32, shift: u32) -> Pool {
        Pool {
            size: size.max(1),
            shift,
            pages: Vec::new(),
            free: Vec::new(),
            hand: 0,
            work: PoolWork::default(),
            marks: Vec::new(),
        }
    }

    /// The page is read, from the disk unless the kernel has it.
    #[inline]
    fn read(&mut self, state: &mut u64) {
        if *state >> self.shift & u64::from(FROM_DISK | WRITTEN) == 0 {
            *state |= u64::from(FROM_DISK) << self.shift;
            self.work.disk_reads += 1;
        }
    }

    /// A buffer for the page of reference number `before`: one that was freed, one that was never used, or the clock's
    /// next victim.
    fn take_frame(
        &mut self,
        lane: usize,
        states: &mut [u64],
        before: u64,
        written: Option<&mut Vec<(Page, u64)>>,
        journal: &mut Option<Vec<Change>>,
    ) -> u32 {
        if let Some(frame) = self.free.pop() {
            note(journal, Change::Popped(lane, frame));
            return frame;
        }
        let used = self.pages.len() as u32;
        if used < self.size {
            self.pages.push(Page::MAX);
            note(journal, Change::Grown(lane));
            self.work.frames += 1;
            return used;
        }
        loop {
            let at = self.hand;
            self.hand = if at + 1 == self.size { 0 } else { at + 1 };
            let Some(page) = self.pages.get(at as usize) else { return at };
            let Some(state) = states.get_mut(*page as usize) else { return at };
            note(journal, Change::State(*page, *state));
            let usage = (*state >> self.shift) as u8;
            if usage & USAGE > 0 {
                *state -= 1 << self.shift;
                continue;
            }
            *state &= !(u64::from(HELD | DIRTY | CAME_FAR) << self.shift);
            if usage & DIRTY != 0 {
                *state |= u64::from(WRITTEN) << self.shift;
                self.work.first_writes += u64::from(usage & WRITTEN == 0);
                self.work.evictions += 1;
                self.work.far_evictions += u64::from(usage & CAME_FAR != 0);
                if let Some(written) = written {
                    written.push((*page, before));
                }
            }
            return at;
        }
    }
}

fn put<T>(places: &mut [T], at: usize, value: T) {
    if let Some(place) = places.get_mut(at) {
        *place = value;
    }
}

/// Of each size: dirty pages in its buffers.
fn dirty(states: &[u64]) -> [u64; LANES] {
    let mut dirty = [0; LANES];
    // No more at once than a byte can count.
    for some in states.chunks(usize::from(u8::MAX)) {
        let sum: u64 = some.iter().map(|state| (*state / u64::from(DIRTY)) & ONES).sum();
        for (dirty, own) in dirty.iter_mut().zip(sum.to_le_bytes()) {
            *dirty += u64::from(own);
        }
    }
    dirty
}
