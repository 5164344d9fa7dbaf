//! The pass over digests, in order, on one machine.

use walproof_wal::{Lsn, WalIdentity};

use crate::knowledge::Knowledge;
use crate::ranges::digest::{Digest, Ended};
use crate::ranges::draw::{Draw, Wanted};
use crate::ranges::looks::Looks;
use crate::request::Request;
use crate::samples::ForkSample;
use crate::simulation::{is_past_beginning, Learning, Simulation, WhatIf};
use crate::target::Target;

/// A simulation that takes digests of ranges. They are drawn from, learned from and added, in order:
///
/// 1. [`Pass::draw`] with `is_learning`, until one reaches past the beginning; then of all of them without.
/// 2. [`Pass::look`] with what was seen of the images that these want.
/// 3. [`Pass::learn`] with those of the beginning.
/// 4. [`Pass::add`] of all; [`Pass::finish`].
///
/// What does not fit together makes [`Pass::finish`] return None: then one machine has to read the WAL.
pub struct Pass {
    targets: Vec<Target>,
    times: Vec<(Lsn, i64)>,
    most_pages: Option<u64>,
    draw: Draw,
    /// Where the recording begins, once it is known.
    start: Option<Lsn>,
    knowledge: Knowledge<'static>,
    learning: Option<Learning>,
    simulation: Option<Simulation>,
    read: Option<Read>,
    is_broken: bool,
}

/// What was added.
#[derive(Debug)]
struct Read {
    identity: WalIdentity,
    first_timeline: u32,
    timeline: u32,
    start: Lsn,
    last: Lsn,
    end: Lsn,
    ended: Ended,
}

impl Pass {
    /// `samples` and their nanoseconds: as in [`Request`].
    #[must_use]
    pub fn new(
        targets: Vec<Target>,
        times: Vec<(Lsn, i64)>,
        most_pages: Option<u64>,
        samples: (&[ForkSample], [u64; 3]),
    ) -> Pass {
        let mut knowledge = Knowledge::of_looks(&|| 0);
        knowledge.recall(samples.0, samples.1);
        Pass {
            targets,
            times,
            most_pages,
            draw: Draw::new(samples.0),
            start: None,
            knowledge,
            learning: Some(Learning::default()),
            simulation: None,
            read: None,
            is_broken: false,
        }
    }

    /// Images of the digest that are wanted by learning from the beginning, or by the simulation; whether the
    /// digest reaches past the beginning.
    pub fn draw(&mut self, digest: &Digest, is_learning: bool) -> (Vec<Wanted>, bool) {
        let start = *self.start.get_or_insert(digest.first);
        let goes_on = |lsn| !is_learning || !is_past_beginning(start, lsn);
        let mut wanted = Vec::new();
        for ((lsn, id), is_blank) in self.draw.images(digest, is_learning, goes_on) {
            if is_blank {
                self.knowledge.looks().found.insert((lsn.0, id), None);
            } else {
                wanted.push((lsn, id));
            }
        }
        (wanted, is_past_beginning(start, digest.last))
    }

    /// Takes note of what was seen.
    pub fn look(&mut self, looks: Looks) {
        self.knowledge.add_nanoseconds(looks.nanoseconds);
        let found = looks.found.into_iter().map(|(lsn, id, look)| ((lsn.0, id), look));
        self.knowledge.looks().found.extend(found);
    }

    /// Learns from records of the beginning.
    pub fn learn(&mut self, digest: &Digest) {
        let Some(learning) = &mut self.learning else { return };
        let knowledge = &mut self.knowledge;
        self.is_broken |= digest.records(|record| learning.add(record, knowledge)).is_none();
    }

    /// Simulates the records of the digest that follows.
    pub fn add(&mut self, digest: &Digest) {
        self.learning = None;
        self.is_broken |= !self.follows(digest);
        if self.is_broken {
            return;
        }
        let simulation = self.simulation.get_or_insert_with(|| {
            let mut request = Request::new(&self.targets);
            (request.times, request.most_pages) = (&self.times, self.most_pages);
            Simulation::new(digest.first, digest.identity, &request)
        });
        let knowledge = &mut self.knowledge;
        let done = digest.records(|record| {
            simulation.add(record, knowledge);
            true
        });
        self.is_broken |= done.is_none();
        let read = self.read.get_or_insert_with(|| Read {
            identity: digest.identity,
            first_timeline: digest.timelines.0,
            timeline: digest.timelines.1,
            start: digest.first,
            last: digest.last,
            end: digest.end,
            ended: digest.ended.clone(),
        });
        (read.timeline, read.last, read.end) = (digest.timelines.1, digest.last, digest.end);
        read.ended = digest.ended.clone();
    }

    /// Whether its first record is the one after the last.
    fn follows(&self, digest: &Digest) -> bool {
        self.read.as_ref().is_none_or(|read| {
            read.ended == Ended::GoesOn
                && read.identity == digest.identity
                && read.last == digest.first_previous
                && read.end <= digest.first
                && read.timeline <= digest.timelines.0
        })
    }

    /// The answer; None where the digests were not all of the WAL, or did not fit.
    #[must_use]
    pub fn finish(mut self) -> Option<WhatIf> {
        let (simulation, read) = (self.simulation?, self.read?);
        let Ended::End(finish_reason) = read.ended else { return None };
        if self.is_broken || self.knowledge.looks().is_lacking {
            return None;
        }
        let (recorded, outcomes) = simulation.finish(&self.knowledge);
        Some(WhatIf {
            identity: read.identity,
            first_timeline: read.first_timeline,
            timeline: read.timeline,
            start: read.start,
            end: read.end,
            finish_reason,
            gaps: Vec::new(),
            recorded,
            sample: self.knowledge.sample(),
            outcomes,
        })
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Pass")
            .field("targets", &self.targets)
            .field("read", &self.read)
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}
