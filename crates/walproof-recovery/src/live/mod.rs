//! What a recovery would have to do if the server crashed now, kept up to date while its WAL arrives.
//!
//! The answer is that of [`analyse`](crate::analyse) over the WAL from the redo point of the last complete checkpoint to
//! the last record that has come. A checkpoint that completes moves the redo point: from 17 on a record tells where it
//! begins, so that a second simulation runs from there; before 17 its own record tells of it at the end, and what came since
//! is simulated again from a trace, in steps.
//!
//! From the bottom up: `dirty`, `clock` (a simulation that can be asked at any moment), `spill` and `trace` (what is kept of
//! records), `causes` (totals), and here which simulation is the one that counts.

mod causes;
mod changes;
mod clock;
mod dirty;
mod plan;
mod spill;
mod trace;

use walproof_wal::{
    named_fields, Checkpoint, CheckpointKind, Error, Feed, Gap, Lsn, PgVersion, Record, RmgrId, PAGE_SIZE,
};

pub use causes::{Causes, RelationCause};
pub use changes::Changes;
pub use clock::Clock;
pub use plan::{LivePlan, State};

use crate::brief::Brief;
use causes::Counting;
use clock::Simulation;
use spill::Spill;
use trace::Trace;

/// Of a trace in memory alone, at most; and in memory beside a file.
const MEMORY_ALONE: u64 = 64 << 20;
const MEMORY_BESIDE: u64 = 32 << 20;
/// Records that are simulated again whenever WAL arrives, beside four times as many as came.
const STEP: u64 = 20_000;
const CHECKPOINT_REDO: u8 = 0xE0;

/// One server's WAL, as it arrives.
#[derive(Debug)]
pub struct Live {
    feed: Feed,
    follower: Follower,
}

named_fields! {
    /// Everything at a moment, except totals.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Snapshot {
        /// The version that wrote it; None until the first page.
        pub version: Option<u64>,
        /// None until the first page of a segment.
        pub system_identifier: Option<u64>,
        /// Timeline of the last page; 0 until the first.
        pub timeline: u64,
        /// Where what has come ends.
        pub received: Lsn,
        /// Where the first record begins.
        pub start: Option<Lsn>,
        /// Where the last record ends, padding included.
        pub end: Option<Lsn>,
        /// Whether there is a clock, or why not.
        pub state: State,
        /// What a recovery would have to do.
        pub clock: Option<Clock>,
        /// Where it would begin.
        pub redo: Option<Lsn>,
        /// Where the checkpoint that is running began.
        pub next_redo: Option<Lsn>,
        /// Records that are still to be simulated again.
        pub recomputing_left: Option<u64>,
        /// Bytes of the trace.
        pub trace_bytes: u64,
        /// Bytes that the simulations take, roughly.
        pub memory_bytes: u64,
    }
}

/// What follows the records.
#[derive(Debug)]
struct Follower {
    plan: LivePlan,
    version: PgVersion,
    /// From this page on all WAL has come; None before the first record.
    whole_from: Option<Lsn>,
    told: Option<Lsn>,
    current: Option<Simulation>,
    /// From 17 on: the redo point of the checkpoint that is running.
    next: Option<Simulation>,
    /// To 16.
    trace: Trace,
    again: Option<Again>,
    /// Why there is no clock.
    without: State,
    checkpoint: Option<Checkpoint>,
    /// Where the record of the last checkpoint since `whole_from` is.
    complete: Option<Lsn>,
    counting: Counting,
    records: u64,
}

/// A simulation that is behind.
#[derive(Debug)]
struct Again {
    simulation: Simulation,
    /// The next chunk of the trace.
    chunk: u64,
    /// Where the checkpoint's record is.
    checkpoint: Lsn,
    /// The last answer before.
    before: Option<(Lsn, Clock)>,
}

impl Live {
    /// Of a server with segments of that size, in bytes.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no file in the folder of the trace.
    pub fn new(segment_size: u32, plan: LivePlan) -> Result<Live, Error> {
        let (spill, most) = match &plan.trace_folder {
            None => (Spill::none(), plan.trace_bytes.min(MEMORY_ALONE)),
            Some(folder) => {
                let failed = |source| Error::Io { action: "create a file in", path: folder.clone(), source };
                (Spill::in_folder(folder, MEMORY_BESIDE).map_err(failed)?, plan.trace_bytes)
            }
        };
        let follower = Follower {
            version: PgVersion::V13,
            whole_from: None,
            told: plan.redo,
            current: None,
            next: None,
            trace: Trace::new(Lsn(u64::MAX), most, spill),
            again: None,
            without: State::NoCheckpoint,
            checkpoint: None,
            complete: None,
            counting: Counting::new(plan.relations),
            records: 0,
            plan,
        };
        Ok(Live { feed: Feed::new(segment_size), follower })
    }

    /// Takes bytes of WAL from `lsn` on; those that came before are passed over.
    ///
    /// # Errors
    /// As [`Feed::push`].
    pub fn observe(&mut self, lsn: Lsn, bytes: &[u8]) -> Result<(), Error> {
        self.observe_with(lsn, bytes, &mut |_| ())
    }

    /// The same; every record is shown to somebody else as well.
    ///
    /// # Errors
    /// As [`Feed::push`].
    pub fn observe_with(
        &mut self,
        lsn: Lsn,
        bytes: &[u8],
        also: &mut dyn FnMut(&Record<'_>),
    ) -> Result<(), Error> {
        let before = self.follower.records;
        let follower = &mut self.follower;
        let shown = self.feed.push(lsn, bytes, &mut |record| {
            follower.add(record);
            also(record);
        });
        if self.follower.again.is_some() {
            self.recompute(STEP + 4 * (self.follower.records - before));
        }
        shown
    }

    /// Lets what comes next begin anywhere; the clock is not known until a checkpoint whose redo point was
    /// seen.
    pub fn restart(&mut self) {
        self.feed.restart();
        self.follower.lose(State::Hole);
    }

    /// Recovery begins at `redo`, if WAL comes from there on.
    pub fn set_redo(&mut self, redo: Lsn) {
        self.follower.told = Some(redo);
    }

    /// As [`Feed::switch_timeline`].
    ///
    /// # Errors
    /// [`Error::OldTimeline`].
    pub fn switch_timeline(&mut self, timeline: u32, lsn: Lsn) -> Result<(), Error> {
        if !self.feed.switch_timeline(timeline, lsn)? {
            self.follower.lose(State::Hole);
        }
        Ok(())
    }

    /// Simulates so many records again, in whole chunks; returns whether there are more.
    pub fn recompute(&mut self, records: u64) -> bool {
        self.follower.recompute(records)
    }

    /// WAL that was not seen.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        self.feed.gaps()
    }

    /// The last complete checkpoint that was seen.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.follower.checkpoint
    }

    /// Totals of all records.
    #[must_use]
    pub fn causes(&self) -> Causes {
        self.follower.counting.causes()
    }

    /// What is known at this moment.
    pub fn snapshot(&mut self) -> Snapshot {
        let follower = &mut self.follower;
        let (redo, clock) = match (&follower.again, &mut follower.current) {
            (Some(again), _) => again.before.clone().unzip(),
            (None, Some(current)) => (Some(current.redo), current.clock(&follower.plan)),
            (None, None) => (None, None),
        };
        let state = match (&follower.again, &clock) {
            (Some(_), _) => State::Recomputing,
            (None, Some(_)) => State::Known,
            (None, None) => follower.without,
        };
        Snapshot {
            version: self.feed.version().map(|version| u64::from(version.major())),
            system_identifier: self.feed.system_identifier(),
            timeline: u64::from(self.feed.timeline()),
            received: self.feed.received().or(self.feed.end_lsn()).unwrap_or_default(),
            start: self.feed.first_lsn(),
            end: self.feed.end_lsn(),
            state,
            redo: clock.as_ref().and(redo),
            clock,
            next_redo: follower.next.as_ref().map(|next| next.redo),
            recomputing_left: follower.again.as_ref().map(|again| follower.trace.records_from(again.chunk)),
            trace_bytes: follower.trace.bytes(),
            memory_bytes: follower.memory_bytes(),
        }
    }
}

impl Follower {
    #[inline]
    fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.version = record.version;
        self.counting.add(record);
        let brief = Brief::of(record.version, record);
        if self.whole_from.is_none() {
            let page = record.lsn.align_down(u64::from(PAGE_SIZE));
            self.whole_from = Some(page);
            self.trace.clear(page);
        }
        if self.told.is_some_and(|redo| redo <= record.lsn) {
            self.begin_as_told(record.lsn);
        }
        if record.header.rmgr == RmgrId::XLOG {
            self.look_at(record);
        }
        let (lsn, end) = (record.lsn, record.end);
        if let Some(current) = &mut self.current {
            current.add(lsn, end, &brief);
        }
        if let Some(next) = &mut self.next {
            next.add(lsn, end, &brief);
        }
        if record.version < PgVersion::V17 {
            self.trace.add(lsn, end, &brief);
        }
    }

    fn simulation(&self, redo: Lsn) -> Simulation {
        Simulation::new(redo, self.version, &self.plan)
    }

    fn begin_as_told(&mut self, lsn: Lsn) {
        let redo = self.told.take().unwrap_or(lsn);
        if self.current.is_none() && self.again.is_none() && self.whole_from.is_some_and(|from| from <= redo)
        {
            self.current = Some(self.simulation(redo));
        }
    }

    /// A record about checkpoints moves the redo point.
    fn look_at(&mut self, record: &Record<'_>) {
        let is_begin = record.version >= PgVersion::V17 && record.header.info & 0xF0 == CHECKPOINT_REDO;
        if is_begin && self.current.as_ref().is_none_or(|current| current.redo != record.lsn) {
            self.next = Some(self.simulation(record.lsn));
        }
        let Some(checkpoint) = Checkpoint::from_record(record) else { return };
        self.checkpoint = Some(checkpoint);
        let last = self.complete.replace(record.lsn);
        let next = self.next.take();
        if checkpoint.kind == CheckpointKind::Shutdown {
            self.again = None;
            self.current = Some(self.simulation(record.lsn));
            self.trace.clear(record.lsn);
        } else if last.is_some_and(|last| checkpoint.redo < last) {
            // No server begins a checkpoint before the last one is complete, and the trace may have forgotten it.
            (self.current, self.again) = (None, None);
            self.without = State::NoCheckpoint;
            self.trace.forget_until(record.lsn);
        } else if self.current.as_ref().is_some_and(|current| current.redo == checkpoint.redo) {
            self.trace.forget_until(record.lsn);
        } else if record.version >= PgVersion::V17 {
            self.current = next.filter(|next| next.redo == checkpoint.redo);
            self.without = State::NoCheckpoint;
        } else {
            self.simulate_again(checkpoint);
        }
    }

    fn simulate_again(&mut self, checkpoint: Checkpoint) {
        let before = match self.again.take() {
            Some(again) => again.before,
            None => self
                .current
                .take()
                .and_then(|mut simulation| Some((simulation.redo, simulation.clock(&self.plan)?))),
        };
        self.current = None;
        if self.trace.from > checkpoint.redo {
            let is_seen = self.whole_from.is_some_and(|from| from <= checkpoint.redo);
            self.without = if is_seen { State::TraceTooLong } else { State::NoCheckpoint };
            self.trace.forget_until(checkpoint.lsn);
            return;
        }
        self.again = Some(Again {
            simulation: self.simulation(checkpoint.redo),
            chunk: self.trace.number_of(checkpoint.redo),
            checkpoint: checkpoint.lsn,
            before,
        });
    }

    fn recompute(&mut self, records: u64) -> bool {
        let Some(mut again) = self.again.take() else { return false };
        let mut done = 0;
        while done < records {
            let simulation = &mut again.simulation;
            let shown = self.trace.show(again.chunk, &mut |lsn, end, brief| {
                done += 1;
                simulation.add(lsn, end, brief);
            });
            match shown {
                // The trace became too long meanwhile.
                None => {
                    self.without = State::TraceTooLong;
                    return false;
                }
                Some(true) => {
                    self.current = Some(again.simulation);
                    self.trace.forget_until(again.checkpoint);
                    return false;
                }
                Some(false) => again.chunk += 1,
            }
        }
        self.again = Some(again);
        true
    }

    /// What came before does not lead to what comes.
    fn lose(&mut self, why: State) {
        (self.current, self.next, self.again) = (None, None, None);
        (self.whole_from, self.told, self.complete) = (None, None, None);
        self.without = why;
        self.trace.clear(Lsn(u64::MAX));
    }

    fn memory_bytes(&self) -> u64 {
        let all =
            self.current.iter().chain(&self.next).chain(self.again.iter().map(|again| &again.simulation));
        all.map(Simulation::memory_bytes).sum::<u64>() + self.trace.memory_bytes()
    }
}
