//! A simulation of recovery from a redo point on, which can be asked at any moment.
//!
//! Everything but the prefetcher depends only on what came before. The prefetcher of a record looks at
//! references after it, so its pools stay a few references behind, and an answer replays those for once and
//! undoes that.

use std::collections::BTreeMap;

use walproof_wal::{named_fields, Lsn, PgVersion};

use crate::analysis::default_concurrency;
use crate::brief::Brief;
use crate::counter::Counter;
use crate::lanes::LANES;
use crate::live::dirty::Dirty;
use crate::live::LivePlan;
use crate::pool::{PoolWork, Pools};
use crate::prefetchers::DISTANCE_MULTIPLIER;
use crate::recent::{Recent, DISTANT_PAGES, RECENT_PAGES};
use crate::reference::{Event, Images, Piece, Reference, DONE, FAR, LAST, RECORD_MOST};
use crate::work::Work;

/// References that are simulated together: what is known about pages is then at hand.
const PIECE: usize = 1 << 12;

named_fields! {
    /// The work of a recovery that begins at a redo point and ends with some record.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Clock {
        /// Where the first record begins.
        pub start: Lsn,
        /// Where the last record ends.
        pub end: Lsn,
        /// What does not depend on `shared_buffers`.
        pub work: Work,
        /// For each size of `shared_buffers`, in their order.
        pub pools: Vec<PoolWork>,
        /// The same with `recovery_prefetch=off`.
        pub pools_off: Vec<PoolWork>,
    }
}

/// A recovery that goes on as WAL arrives.
#[derive(Debug)]
pub(crate) struct Simulation {
    /// Where it begins: the redo point.
    pub(crate) redo: Lsn,
    /// Where the first record begins and the last one ends.
    bounds: Option<(Lsn, Lsn)>,
    counter: Counter,
    plain: Vec<Pools>,
    prefetching: Vec<Pools>,
    /// How many references after a record have to be known before it is replayed there.
    look_ahead: usize,
    /// What is not replayed there yet; the number of the first.
    references: Vec<Reference>,
    events: Vec<(u64, Event)>,
    base: u64,
    recent: Recent,
    dirty: Dirty,
}

impl Simulation {
    pub(crate) fn new(redo: Lsn, version: PgVersion, plan: &LivePlan) -> Simulation {
        let concurrency = match default_concurrency(version) {
            0 => 0,
            default => plan.concurrency.unwrap_or(default),
        };
        let mut sizes: Vec<u32> = plan.buffers.iter().map(|size| (*size).max(1)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let pools = |concurrency| -> Vec<Pools> {
            sizes.chunks(LANES).map(|sizes| Pools::new(version, sizes, concurrency)).collect()
        };
        Simulation {
            redo,
            bounds: None,
            counter: Counter::new(Images::Recorded, plan.read_ahead, None),
            plain: pools(0),
            prefetching: if concurrency > 0 { pools(concurrency) } else { Vec::new() },
            look_ahead: concurrency as usize * DISTANCE_MULTIPLIER as usize + RECORD_MOST,
            references: Vec::new(),
            events: Vec::new(),
            base: 0,
            recent: Recent::new(RECENT_PAGES, DISTANT_PAGES),
            dirty: Dirty::default(),
        }
    }

    /// The record from `lsn` to `end`; those before the redo point are not part of it.
    #[inline]
    pub(crate) fn add(&mut self, lsn: Lsn, end: Lsn, record: &Brief<'_>) {
        if lsn < self.redo {
            return;
        }
        self.bounds.get_or_insert((lsn, end)).1 = end;
        self.counter.add(record);
        if self.counter.piece.references.len() >= PIECE {
            self.settle();
        }
    }

    /// Replays what can be.
    fn settle(&mut self) {
        let next = Piece { references: Vec::with_capacity(PIECE + RECORD_MOST), events: Vec::new() };
        let base = self.counter.at() - self.counter.piece.references.len() as u64;
        let piece = self.counter.take(next);
        let (references, events) = (&piece.references, &piece.events);
        let until = base + references.len() as u64;
        let pages = self.counter.pages.count() as usize;
        for pools in &mut self.plain {
            pools.replay(references, base, until, events, pages);
        }
        self.dirty.replay(references, base, events, &self.counter.pages);
        for reference in references {
            self.recent.touch(reference.page, reference.flags & FAR != 0, reference.flags & DONE != 0);
        }
        if self.prefetching.is_empty() {
            return;
        }
        self.references.extend_from_slice(references);
        self.events.extend_from_slice(events);
        let kept = self.references.len().saturating_sub(self.look_ahead);
        let whole = self.references.get(..kept).unwrap_or_default();
        let Some(last) = whole.iter().rposition(|reference| reference.flags & LAST != 0) else { return };
        let until = self.base + last as u64 + 1;
        let now = self.events.partition_point(|(before, _)| *before < until);
        for pools in &mut self.prefetching {
            let events = self.events.get(..now).unwrap_or_default();
            pools.replay(&self.references, self.base, until, events, pages);
        }
        self.references.drain(..=last);
        self.events.drain(..now);
        self.base = until;
    }

    /// The work if the WAL ended now; None before the first record.
    pub(crate) fn clock(&mut self, plan: &LivePlan) -> Option<Clock> {
        self.settle();
        let (start, end) = self.bounds?;
        let misses = self.recent.misses();
        let work = Work {
            recent_misses: misses.recent,
            far_misses: misses.far,
            distant_misses: misses.distant,
            dirty: self.dirty.count,
            runs: self.dirty.runs,
            extensions: self.dirty.extensions,
            ..self.counter.work()
        };
        let pages = self.counter.pages.count() as usize;
        let off: BTreeMap<u32, PoolWork> = self.plain.iter().flat_map(Pools::works).collect();
        let (references, events) = (&self.references, &self.events);
        let on: BTreeMap<u32, PoolWork> = self
            .prefetching
            .iter_mut()
            .flat_map(|pools| pools.works_after(references, self.base, events, pages))
            .collect();
        let of = |works: &BTreeMap<u32, PoolWork>| -> Vec<PoolWork> {
            plan.buffers.iter().filter_map(|size| works.get(&(*size).max(1))).copied().collect()
        };
        // Where nothing prefetches, both are the same.
        let pools = of(if on.is_empty() { &off } else { &on });
        Some(Clock { start, end, work, pools, pools_off: of(&off) })
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let pools: u64 = self.plain.iter().chain(&self.prefetching).map(Pools::memory_bytes).sum();
        let counter = self.counter.pages.memory_bytes() + self.counter.ahead.memory_bytes();
        pools + counter + self.recent.memory_bytes() + self.dirty.memory_bytes()
    }
}
