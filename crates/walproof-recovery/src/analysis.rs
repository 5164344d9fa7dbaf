//! The pass: one thread decodes and numbers pages; the others simulate, a piece of the stream at a time.

use std::collections::BTreeMap;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

use rayon::prelude::*;
use walproof_wal::{
    named_fields, Error, Finish, Gap, Lsn, PgVersion, Range, Reader, Record, Segments, WalIdentity,
};

use crate::brief::Brief;
use crate::counter::Counter;
use crate::dirty::{runs, Dirty};
use crate::lanes::LANES;
use crate::pages::Pages;
use crate::pool::{PoolWork, Pools};
use crate::prefetchers::DISTANCE_MULTIPLIER;
use crate::recent::{Misses, Recent, DISTANT_PAGES, RECENT_PAGES};
use crate::reference::{Event, Images, Piece, Reference, DONE, FAR, LAST, RECORD_MOST};
use crate::work::Work;
use crate::written::{Crashed, Written};

/// References in a piece of the stream.
const PIECE: usize = 1 << 14;
/// Pieces that may wait.
const PIECES_MOST: usize = 8;

/// What to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Sizes of `shared_buffers`, in buffers of 8 kB.
    pub buffers: Vec<u32>,
    /// `maintenance_io_concurrency`; its default in that version when None.
    pub concurrency: Option<u32>,
    /// Locations, ascending: the work up to each is told apart.
    pub marks: Vec<Lsn>,
    /// Which references carry an image.
    pub images: Images,
    /// `shared_buffers` of the server that crashed, in buffers: pages that it had written are newer than their records.
    /// None: it had written none.
    pub crashed: Option<u32>,
    /// The most pages of 8 kB that the kernel reads at once: `read_ahead_kb` of the disk.
    pub read_ahead: u32,
}

named_fields! {
    /// The work from the beginning up to some location.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Features {
        /// Where its last record ends.
        pub end: Lsn,
        /// What does not depend on `shared_buffers`.
        pub work: Work,
        /// For each size of `shared_buffers`, in their order.
        pub pools: Vec<PoolWork>,
        /// The same with `recovery_prefetch=off`.
        pub pools_off: Vec<PoolWork>,
    }
}

/// What recovery has to do with the recording.
#[derive(Debug)]
pub struct Recovery {
    /// What the WAL says about itself.
    pub identity: WalIdentity,
    /// Timeline of the last record's page.
    pub timeline: u32,
    /// Where the first record begins.
    pub start: Lsn,
    /// Why there were no more records.
    pub finish: Finish,
    /// WAL that was missing and passed over.
    pub gaps: Vec<Gap>,
    /// The work up to each mark that lies before the end, then up to the end.
    pub features: Vec<Features>,
}

impl Recovery {
    /// The work up to the end.
    #[must_use]
    pub fn last(&self) -> &Features {
        match self.features.last() {
            Some(last) => last,
            None => unreachable!("the end is always among the features"),
        }
    }
}

/// The default `maintenance_io_concurrency`; 0 if recovery does not prefetch (before 15).
#[must_use]
pub(crate) fn default_concurrency(version: PgVersion) -> u32 {
    match version {
        PgVersion::V13 | PgVersion::V14 => 0,
        PgVersion::V15 | PgVersion::V16 | PgVersion::V17 => 10,
        _ => 16,
    }
}

/// Reads the recording from `range.start` (the redo point) on and simulates what recovery does: once, and again where
/// the server had written pages that are newer than their records.
///
/// # Errors
/// As [`Reader::open`] and [`Reader::next_record`].
pub fn analyse(segments: impl Into<Arc<Segments>>, range: Range, plan: &Plan) -> Result<Recovery, Error> {
    let segments = segments.into();
    match pass(Arc::clone(&segments), range, plan, None)? {
        (_, Some(written)) => Ok(pass(segments, range, plan, Some(written))?.0),
        (recovery, None) => Ok(recovery),
    }
}

/// One pass: what recovery does to pages of which `written` is known, or, when it is not, what the server wrote.
fn pass(
    segments: Arc<Segments>,
    range: Range,
    plan: &Plan,
    written: Option<Written>,
) -> Result<(Recovery, Option<Written>), Error> {
    let mut reader = Reader::open(segments, range)?;
    reader.announce(1);
    let crashed = plan.crashed.filter(|_| written.is_none());
    let identity = reader.identity();
    let concurrency = match default_concurrency(identity.version) {
        0 => 0,
        default => plan.concurrency.unwrap_or(default),
    };
    let (sender, receiver) = sync_channel(PIECES_MOST);
    let (decoded, simulations) = std::thread::scope(|scope| {
        let simulating =
            scope.spawn(move || simulate(identity.version, &receiver, &plan.buffers, concurrency, crashed));
        let mut decoder = Decoder::new(plan, identity.version, written, sender);
        let read = loop {
            match reader.next_record() {
                Ok(Some(record)) => decoder.add(&record),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let decoded = read.map(|()| decoder.finish(reader.end_lsn()));
        // The simulations end when the sender is gone, with the decoder.
        match simulating.join() {
            Ok(simulations) => (decoded, simulations),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let (mut features, pages) = decoded?;
    let written = simulations.add_to(&plan.buffers, &mut features, &pages.into_places());
    let recovery = Recovery {
        identity,
        timeline: reader.timeline(),
        start: reader.first_lsn(),
        gaps: reader.gaps().to_vec(),
        features,
        finish: reader.into_finish(),
    };
    Ok((recovery, written))
}

/// A piece, and how many pages have numbers by its end.
type Sent = (Piece, usize);

#[derive(Debug)]
struct Decoder<'a> {
    plan: &'a Plan,
    version: PgVersion,
    counter: Counter,
    sender: SyncSender<Sent>,
    features: Vec<Features>,
    last_end: Lsn,
}

impl<'a> Decoder<'a> {
    fn new(
        plan: &'a Plan,
        version: PgVersion,
        written: Option<Written>,
        sender: SyncSender<Sent>,
    ) -> Decoder<'a> {
        Decoder {
            plan,
            version,
            counter: Counter::new(plan.images, plan.read_ahead, written),
            sender,
            features: Vec::new(),
            last_end: Lsn(0),
        }
    }

    #[inline]
    fn add(&mut self, record: &Record<'_>) {
        while self.plan.marks.get(self.features.len()).is_some_and(|mark| *mark < record.end) {
            self.mark();
        }
        self.last_end = record.end;
        self.counter.add(&Brief::of(self.version, record));
        if self.counter.piece.references.len() >= PIECE {
            self.send();
        }
    }

    fn mark(&mut self) {
        let at = self.counter.at();
        self.counter.piece.events.push((at, Event::Mark));
        let work = self.counter.work();
        self.features.push(Features { end: self.last_end, work, pools: Vec::new(), pools_off: Vec::new() });
    }

    fn send(&mut self) {
        let next = Piece { references: Vec::with_capacity(PIECE + RECORD_MOST), events: Vec::new() };
        let piece = self.counter.take(next);
        // A receiver that is gone has panicked, which is found out when it is waited for.
        let _ = self.sender.send((piece, self.counter.pages.count() as usize));
    }

    fn finish(mut self, end: Lsn) -> (Vec<Features>, Pages) {
        self.last_end = end;
        self.mark();
        self.send();
        (self.features, self.counter.pages)
    }
}

/// One simulation of those that are independent of each other.
#[derive(Debug)]
enum Simulation {
    Pools(Box<Pools>),
    Recent(Recent, Vec<Misses>),
    Dirty(Dirty),
    Crashed(Box<Crashed>),
}

#[derive(Debug)]
struct Simulations {
    all: Vec<Simulation>,
}

/// Runs all simulations side by side until the stream ends.
fn simulate(
    version: PgVersion,
    receiver: &Receiver<Sent>,
    buffers: &[u32],
    concurrency: u32,
    crashed: Option<u32>,
) -> Simulations {
    let mut sizes = buffers.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::new();
    for sizes in sizes.chunks(LANES) {
        all.push(Simulation::Pools(Box::new(Pools::new(version, sizes, 0))));
        if concurrency > 0 {
            all.push(Simulation::Pools(Box::new(Pools::new(version, sizes, concurrency))));
        }
    }
    all.push(Simulation::Recent(Recent::new(RECENT_PAGES, DISTANT_PAGES), Vec::new()));
    all.push(Simulation::Dirty(Dirty::default()));
    all.extend(crashed.map(|buffers| Simulation::Crashed(Box::new(Crashed::new(version, buffers)))));
    let look_ahead = (concurrency * DISTANCE_MULTIPLIER) as usize + RECORD_MOST;
    let mut stream = Stream { references: Vec::new(), events: Vec::new(), base: 0, pages: 0 };
    while let Ok((piece, pages)) = receiver.recv() {
        stream.references.extend(piece.references);
        stream.events.extend(piece.events);
        stream.pages = pages;
        let kept = stream.references.len().saturating_sub(look_ahead);
        // Up to the end of a record after which enough references are known.
        let whole = stream
            .references
            .get(..kept)
            .and_then(|some| some.iter().rposition(|reference| reference.flags & LAST != 0));
        if let Some(last) = whole {
            stream.replay(&mut all, last + 1);
        }
    }
    let rest = stream.references.len();
    stream.replay(&mut all, rest);
    Simulations { all }
}

#[derive(Debug)]
struct Stream {
    references: Vec<Reference>,
    events: Vec<(u64, Event)>,
    /// Number of the first of `references`.
    base: u64,
    pages: usize,
}

impl Stream {
    /// Every simulation replays the first `count` references and the events among them.
    fn replay(&mut self, all: &mut [Simulation], count: usize) {
        let until = self.base + count as u64;
        let is_end = count == self.references.len();
        let now = self.events.partition_point(|(before, _)| *before < until || is_end);
        let (references, events) = (&self.references, self.events.get(..now).unwrap_or_default());
        let (base, pages) = (self.base, self.pages);
        all.par_iter_mut().for_each(|task| match task {
            Simulation::Pools(pools) => pools.replay(references, base, until, events, pages),
            Simulation::Dirty(dirty) => {
                dirty.replay(references.get(..count).unwrap_or_default(), base, events, pages);
            }
            Simulation::Crashed(crashed) => crashed.replay(references, base, until, events, pages),
            Simulation::Recent(recent, marks) => {
                let mut events = events.iter().filter(|(_, event)| *event == Event::Mark).peekable();
                for (at, reference) in (base..until).zip(references) {
                    while events.next_if(|(before, _)| *before <= at).is_some() {
                        marks.push(recent.misses());
                    }
                    recent.touch(reference.page, reference.flags & FAR != 0, reference.flags & DONE != 0);
                }
                events.for_each(|_| marks.push(recent.misses()));
            }
        });
        self.references.drain(..count);
        self.events.drain(..now);
        self.base = until;
    }
}

impl Simulations {
    /// Joins what was simulated with what was counted; `places` tells which pages are neighbours. Also
    /// returns what the server wrote that makes a difference, if that was asked for.
    fn add_to(self, buffers: &[u32], features: &mut [Features], places: &[(u32, u32)]) -> Option<Written> {
        let mut written = None;
        // By size and whether it prefetches.
        let mut found: BTreeMap<(u32, bool), Vec<PoolWork>> = BTreeMap::new();
        for simulation in self.all {
            match simulation {
                Simulation::Recent(_, marks) => {
                    for (features, misses) in features.iter_mut().zip(marks) {
                        features.work.recent_misses = misses.recent;
                        features.work.far_misses = misses.far;
                        features.work.distant_misses = misses.distant;
                    }
                }
                Simulation::Pools(pools) => {
                    let prefetch = pools.prefetch();
                    found.extend(
                        pools.into_pools().into_iter().map(|pool| ((pool.size, prefetch), pool.marks)),
                    );
                }
                Simulation::Dirty(dirty) => {
                    for (features, mark) in features.iter_mut().zip(dirty.marks) {
                        features.work.dirty = mark.pages.len() as u64;
                        features.work.runs = runs(&mark.pages, places);
                        features.work.extensions = mark.extensions;
                    }
                }
                Simulation::Crashed(crashed) => written = crashed.into_written(),
            }
        }
        for size in buffers {
            let size = (*size).max(1);
            let off = found.get(&(size, false));
            // Where nothing prefetches, both are the same.
            let on = found.get(&(size, true)).or(off);
            for ((features, on), off) in
                features.iter_mut().zip(on.into_iter().flatten()).zip(off.into_iter().flatten())
            {
                features.pools.push(*on);
                features.pools_off.push(*off);
            }
        }
        written
    }
}
