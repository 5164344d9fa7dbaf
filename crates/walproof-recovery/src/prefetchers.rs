//! The prefetcher of each of several servers, which differ in what they find in `shared_buffers`.
//!
//! It (`XLogPrefetcherNextBlock`, src/backend/access/transam/xlogprefetcher.c, the same in 15 to 18)
//! looks up to 4 * `maintenance_io_concurrency` references ahead. One with an image, one that is initialised and one
//! of another fork it passes over *before* it remembers the block, so the next bare reference to that page
//! is found neither among the 4 last blocks nor, not being replayed yet, in `shared_buffers`: the page is fetched though
//! replay will build it from its image.

use crate::lanes::{bit, each, LANES, ONES};
use crate::pages::Page;
use crate::reference::RECORD_MOST;

const NONE: Page = u32::MAX;
/// `XLOGPREFETCHER_SEQ_WINDOW_SIZE`.
const WINDOW: usize = 4;
/// `XLOGPREFETCHER_DISTANCE_MULTIPLIER`.
pub(crate) const DISTANCE_MULTIPLIER: u32 = 4;
/// The most that `maintenance_io_concurrency` can be.
const CONCURRENCY_MOST: u32 = 1000;

// What came of looking at a reference, in a byte for each server; 0: it was passed over, or not looked at.

/// The page was in a buffer.
const FOUND: u64 = 1;
/// The page was not there, and was asked for.
const FETCHED: u64 = 2;

/// The queues of references that were looked at and not yet replayed (`LsnReadQueue`).
///
/// Most servers look at the same reference at the same time: those in step do it together.
#[derive(Clone, Debug)]
pub(crate) struct Prefetchers {
    in_flight_most: u32,
    distance: u64,
    /// The outcome of each reference from `tail` on, by its number: a ring whose length is a power of two.
    looked: Vec<u64>,
    /// First reference that is not replayed yet.
    tail: u64,
    in_flight: [u32; LANES],
    /// Servers that may ask for more.
    open: u64,
    /// Servers in step, at least one, and where they are.
    in_step: u64,
    step: Place,
    /// Where each of the others is.
    apart: [Place; LANES],
}

/// Where a prefetcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Next reference to be looked at.
    next: u64,
    /// The pages that were remembered last, the last one first.
    recent: [Page; WINDOW],
}

/// Servers that look at a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Its number.
    pub(crate) at: u64,
    /// A bit for each server.
    pub(crate) lanes: u64,
}

impl Prefetchers {
    /// With this `maintenance_io_concurrency`, for servers with these bits.
    pub(crate) fn new(concurrency: u32, lanes: u64) -> Prefetchers {
        let in_flight_most = concurrency.min(CONCURRENCY_MOST);
        let distance = (in_flight_most * DISTANCE_MULTIPLIER) as usize;
        // A record has references that are farther away, and is replayed as a whole.
        let length = (distance + RECORD_MOST).next_power_of_two();
        let begin = Place { next: 0, recent: [NONE; WINDOW] };
        Prefetchers {
            in_flight_most,
            distance: distance as u64,
            looked: vec![0; length],
            tail: 0,
            in_flight: [0; LANES],
            open: lanes,
            in_step: lanes,
            step: begin,
            apart: [begin; LANES],
        }
    }

    #[inline]
    fn looked(&mut self, at: u64) -> Option<&mut u64> {
        let place = at as usize & (self.looked.len() - 1);
        self.looked.get_mut(place)
    }

    /// Everything before number `next` was replayed. References of a record that was handed out before the
    /// prefetcher came to them are passed over (`XLogPrefetcherReadRecord`).
    #[inline]
    pub(crate) fn complete(&mut self, next: u64) {
        for at in self.tail..next {
            let looked = self.looked(at).map_or(0, std::mem::take);
            let fetched = (looked / FETCHED) & ONES;
            for lane in each(fetched) {
                if let Some(own) = self.in_flight.get_mut(lane) {
                    *own -= 1;
                }
            }
            self.open |= fetched;
        }
        self.tail = next;
        self.step.next = self.step.next.max(next);
    }

    /// Servers that are not in step and may ask for more.
    #[inline]
    pub(crate) fn open_apart(&self) -> u64 {
        self.open & !self.in_step
    }

    /// What a server that is not in step looks at next, if it does before the next record is replayed.
    #[inline]
    pub(crate) fn next_apart(&mut self, lane: usize) -> Option<Look> {
        let prefetcher = self.apart.get_mut(lane)?;
        prefetcher.next = prefetcher.next.max(self.tail);
        if *prefetcher == self.step {
            self.in_step |= bit(lane);
            return None;
        }
        let looks = self.open & bit(lane) != 0 && prefetcher.next - self.tail < self.distance;
        looks.then_some(Look { at: prefetcher.next, lanes: bit(lane) })
    }

    /// What those in step look at next; who may not ask for more is left behind.
    #[inline]
    pub(crate) fn next_in_step(&mut self) -> Option<Look> {
        let lanes = self.in_step & self.open;
        if lanes == 0 || self.step.next - self.tail >= self.distance {
            return None;
        }
        for lane in each(self.in_step & !lanes) {
            if let Some(own) = self.apart.get_mut(lane) {
                *own = self.step;
            }
        }
        self.in_step = lanes;
        Some(Look { at: self.step.next, lanes })
    }

    fn place(&mut self, look: Look) -> Option<&mut Place> {
        if look.lanes & self.in_step != 0 {
            return Some(&mut self.step);
        }
        self.apart.get_mut(look.lanes.trailing_zeros() as usize / 8)
    }

    /// The reference was passed over.
    #[inline]
    pub(crate) fn pass(&mut self, look: Look) {
        if let Some(own) = self.place(look) {
            own.next += 1;
        }
    }

    /// Whether the page is among the last four that were remembered; it is remembered if not.
    #[inline]
    pub(crate) fn is_repeated(&mut self, look: Look, page: Page) -> bool {
        let Some(Place { recent, .. }) = self.place(look) else { return true };
        let is_repeated = recent.contains(&page);
        if !is_repeated {
            recent.rotate_right(1);
            recent[0] = page;
        }
        is_repeated
    }

    /// The page was looked for; these servers did not have it, and ask for it.
    #[inline]
    pub(crate) fn look(&mut self, look: Look, fetched: u64) {
        if let Some(looked) = self.looked(look.at) {
            *looked |= ((look.lanes & !fetched) * FOUND) | (fetched * FETCHED);
        }
        for lane in each(fetched) {
            if let Some(own) = self.in_flight.get_mut(lane) {
                *own += 1;
                if *own == self.in_flight_most {
                    self.open &= !bit(lane);
                }
            }
        }
        self.pass(look);
    }

    /// Which servers had found the page of reference number `at`, one of the record that is replayed.
    #[inline]
    pub(crate) fn found(&self, at: u64) -> u64 {
        self.looked.get(at as usize & (self.looked.len() - 1)).map_or(0, |looked| (*looked / FOUND) & ONES)
    }
}
