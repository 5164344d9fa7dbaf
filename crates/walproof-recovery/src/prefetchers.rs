//! The prefetcher of each of several servers, which differ in what they find in `shared_buffers`.
//!
//! It (`XLogPrefetcherNextBlock`, src/backend/access/transam/xlogprefetcher.c, the same in 15 to 18)
//! looks up to 4 * `maintenance_io_concurrency` references ahead. One with an image, one that is initialised and one
//! of another fork it passes over *before* it remembers the block, so the next bare reference to that page
//! is found neither among the 4 last blocks nor, not being replayed yet, in `shared_buffers`: the page is fetched though
//! replay will build it from its image.

use crate::lanes::{Frames, LANES};
use crate::pages::Page;
use crate::reference::RECORD_MOST;

const NONE: Page = u32::MAX;
/// `XLOGPREFETCHER_SEQ_WINDOW_SIZE`.
const WINDOW: usize = 4;
/// `XLOGPREFETCHER_DISTANCE_MULTIPLIER`.
pub(crate) const DISTANCE_MULTIPLIER: u32 = 4;
/// The most that `maintenance_io_concurrency` can be.
const CONCURRENCY_MOST: u32 = 1000;

/// Beside numbers of buffers, what came of looking at a reference: it was passed over, or not looked at.
pub(crate) const NOTHING: u32 = u32::MAX;
/// The page was not there, and was asked for.
pub(crate) const FETCHED: u32 = u32::MAX - 1;

/// The queues of references that were looked at and not yet replayed (`LsnReadQueue`).
#[derive(Debug)]
pub(crate) struct Prefetchers {
    in_flight_most: u32,
    distance: u64,
    /// What came of each reference from `tail` on, by its number: a ring whose length is a power of two, no longer than
    /// needed, so that it stays in the processor's first cache.
    looked: Vec<Frames>,
    /// First reference that is not replayed yet.
    tail: u64,
    in_flight: Frames,
    /// Next reference to be looked at.
    ahead: [u64; LANES],
    recent: [Recent; LANES],
}

/// The pages that were remembered last.
#[derive(Clone, Copy, Debug)]
struct Recent {
    pages: [Page; WINDOW],
    oldest: usize,
}

impl Prefetchers {
    /// With this `maintenance_io_concurrency`.
    pub(crate) fn new(concurrency: u32) -> Prefetchers {
        let in_flight_most = concurrency.min(CONCURRENCY_MOST);
        let distance = (in_flight_most * DISTANCE_MULTIPLIER) as usize;
        // A record has references that are farther away, and is replayed as a whole.
        let length = (distance + RECORD_MOST).next_power_of_two();
        Prefetchers {
            in_flight_most,
            distance: distance as u64,
            looked: vec![Frames([NOTHING; LANES]); length],
            tail: 0,
            in_flight: Frames([0; LANES]),
            ahead: [0; LANES],
            recent: [Recent { pages: [NONE; WINDOW], oldest: 0 }; LANES],
        }
    }

    #[inline]
    fn place(&self, at: u64) -> usize {
        at as usize & (self.looked.len() - 1)
    }

    /// Everything before number `next` was replayed. References of a record that was handed out before the
    /// prefetcher came to them are passed over (`XLogPrefetcherReadRecord`).
    #[inline]
    pub(crate) fn complete(&mut self, next: u64) {
        for at in self.tail..next {
            let place = self.place(at);
            let Some(looked) = self.looked.get_mut(place) else { continue };
            for (in_flight, looked) in self.in_flight.0.iter_mut().zip(&looked.0) {
                *in_flight -= u32::from(*looked == FETCHED);
            }
            *looked = Frames([NOTHING; LANES]);
        }
        self.tail = next;
    }

    /// Number of the reference that a server looks at next, if it does before the next record is replayed.
    #[inline]
    pub(crate) fn next(&self, lane: usize) -> Option<u64> {
        let (ahead, in_flight) = (self.ahead.get(lane)?, self.in_flight.0.get(lane)?);
        let ahead = (*ahead).max(self.tail);
        (*in_flight < self.in_flight_most && ahead - self.tail < self.distance).then_some(ahead)
    }

    /// What came of looking at reference number `at`.
    #[inline]
    pub(crate) fn push(&mut self, lane: usize, at: u64, looked: u32) {
        let place = self.place(at);
        if let Some(own) = self.looked.get_mut(place).and_then(|own| own.0.get_mut(lane)) {
            *own = looked;
        }
        if let Some(in_flight) = self.in_flight.0.get_mut(lane) {
            *in_flight += u32::from(looked == FETCHED);
        }
        if let Some(ahead) = self.ahead.get_mut(lane) {
            *ahead = at + 1;
        }
    }

    /// Which servers found the page of reference number `at`, one of the record that is replayed, in the buffer that it
    /// still has: the lowest bit of a byte for each.
    #[inline]
    pub(crate) fn found(&self, at: u64, frames: &Frames) -> u64 {
        let Some(looked) = self.looked.get(self.place(at)) else { return 0 };
        let mut found = [0; LANES];
        for (found, (one, other)) in found.iter_mut().zip(looked.0.iter().zip(&frames.0)) {
            *found = u8::from(one == other);
        }
        u64::from_le_bytes(found)
    }

    /// Whether the page is among the last four that were remembered; it is remembered if not.
    #[inline]
    pub(crate) fn is_repeated(&mut self, lane: usize, page: Page) -> bool {
        let Some(recent) = self.recent.get_mut(lane) else { return true };
        if recent.pages.contains(&page) {
            return true;
        }
        if let Some(slot) = recent.pages.get_mut(recent.oldest) {
            *slot = page;
        }
        recent.oldest = (recent.oldest + 1) % WINDOW;
        false
    }
}
