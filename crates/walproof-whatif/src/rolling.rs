//! The same simulation over WAL that arrives and never ends: what other settings would have written in the last hours.
//!
//! A simulation forgets nothing, so two run at a time, the second begun half a span after the first. The older one answers;
//! when the younger one is half a span old it takes over, and another one begins. So an answer covers between half a span
//! and a whole one, and never more. Pages are a sample, so memory has a bound that neither the database nor the WAL moves.
//! Each first learns from the records that it begins with, as [`simulate`](crate::simulate) does from a recording's, but
//! these are not simulated: what has come is not kept.

use walproof_wal::{Gap, Lsn, PgVersion, Record, TransactionEnd, WalIdentity};

use crate::knowledge::Knowledge;
use crate::request::Request;
use crate::simulation::{Learning, Simulation, WhatIf};
use crate::target::Target;

/// Relations' forks that are told apart; a server that writes to more has no answer.
const FORKS_MOST: usize = 50_000;

/// How a server's WAL is followed.
#[derive(Clone, Debug)]
pub struct RollingPlan {
    /// The servers to simulate.
    pub targets: Vec<Target>,
    /// Pages to hold at most, in each of both simulations.
    pub most_pages: u64,
    /// Microseconds that an answer covers at most.
    pub span_us: i64,
    /// Bytes and microseconds from which a simulation learns before it begins: what is over first, or as many pages.
    pub learn_bytes: u64,
    /// As `learn_bytes`.
    pub learn_us: i64,
}

/// Simulations of one server's WAL as it arrives.
pub struct Rolling {
    plan: RollingPlan,
    system_identifier: u64,
    segment_size: u32,
    /// The oldest first; two at most.
    generations: Vec<Generation>,
    /// The last record that came, and where it ends.
    last: Lsn,
    end: Lsn,
    timeline: u32,
    /// The latest time that was told.
    now_us: Option<i64>,
    is_overfull: bool,
}

/// A simulation and what it knows.
struct Generation {
    knowledge: Knowledge<'static>,
    stage: Stage,
    version: PgVersion,
    begun: Lsn,
    begun_us: Option<i64>,
    first_timeline: u32,
    gaps: Vec<Gap>,
}

enum Stage {
    Learning(Learning),
    Simulating { simulation: Box<Simulation>, start: Lsn },
}

static NO_CLOCK: fn() -> u64 = || 0;

impl std::fmt::Debug for Rolling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Rolling")
            .field("plan", &self.plan)
            .field("generations", &self.generations.len())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Rolling {
    /// Nothing has come yet. WAL of the server with that identifier, in segments of that size.
    #[must_use]
    pub fn new(system_identifier: u64, segment_size: u32, timeline: u32, plan: RollingPlan) -> Rolling {
        Rolling {
            plan,
            system_identifier,
            segment_size,
            generations: Vec::new(),
            last: Lsn(0),
            end: Lsn(0),
            timeline,
            now_us: None,
            is_overfull: false,
        }
    }

    /// Takes a record. Those that came before are passed over, so a stream may begin anew further back; where one is missing
    /// before it, the answer knows of a gap.
    pub fn add(&mut self, record: &Record<'_>) {
        if record.lsn < self.end || self.is_overfull {
            return;
        }
        if let Some(ended) = TransactionEnd::from_record(record) {
            self.now_us = self.now_us.max(Some(ended.time_unix_us));
            self.rotate();
        }
        if self.generations.is_empty() || self.is_due() {
            self.begin(record);
        }
        let gap = (record.header.prev != self.last && self.end > Lsn(0))
            .then_some(Gap { start: self.end, end: record.lsn });
        for generation in &mut self.generations {
            generation.add(record, gap, self.now_us, self.segment_size, &self.plan);
        }
        (self.last, self.end) = (record.lsn, record.end);
        if self.generations.iter().any(|generation| generation.knowledge.forks_count() > FORKS_MOST) {
            self.generations.clear();
            self.is_overfull = true;
        }
    }

    /// What follows is of that timeline, from there on. Where records behind it were simulated, all begins anew.
    pub fn switch_timeline(&mut self, timeline: u32, lsn: Lsn) {
        if lsn < self.end {
            self.generations.clear();
            (self.last, self.end) = (Lsn(0), Lsn(0));
        }
        self.timeline = timeline;
    }

    /// Whether the server writes to so many relations that nothing is simulated any more.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Bytes that are held, roughly.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.generations.iter().map(Generation::memory_bytes).sum()
    }

    /// What each target would have written since the older simulation began; None while that one still learns.
    #[must_use]
    pub fn answer(&self) -> Option<WhatIf> {
        let oldest = self.generations.first()?;
        let Stage::Simulating { simulation, start } = &oldest.stage else { return None };
        let (recorded, outcomes) = simulation.told(&oldest.knowledge);
        Some(WhatIf {
            identity: WalIdentity {
                version: oldest.version,
                system_identifier: self.system_identifier,
                segment_size: self.segment_size,
            },
            first_timeline: oldest.first_timeline,
            timeline: self.timeline,
            start: *start,
            end: self.end,
            finish_reason: None,
            gaps: oldest.gaps.clone(),
            recorded,
            sample: oldest.knowledge.sample(),
            outcomes,
        })
    }

    /// Whether the youngest simulation is half a span old.
    fn is_due(&self) -> bool {
        let begun = self.generations.last().and_then(|generation| generation.begun_us);
        matches!((begun, self.now_us), (Some(begun), Some(now)) if now.saturating_sub(begun) >= self.plan.span_us / 2)
    }

    /// Lets the older one go when the younger one is half a span old.
    fn rotate(&mut self) {
        if self.generations.len() > 1 && self.is_due() {
            self.generations.remove(0);
        }
    }

    fn begin(&mut self, record: &Record<'_>) {
        self.generations.push(Generation {
            knowledge: Knowledge::new(&NO_CLOCK),
            stage: Stage::Learning(Learning::arriving()),
            version: record.version,
            begun: record.lsn,
            begun_us: self.now_us,
            first_timeline: self.timeline,
            gaps: Vec::new(),
        });
    }
}

impl Generation {
    fn add(
        &mut self,
        record: &Record<'_>,
        gap: Option<Gap>,
        now_us: Option<i64>,
        segment_size: u32,
        plan: &RollingPlan,
    ) {
        if self.begun_us.is_none() {
            self.begun_us = now_us;
        }
        if let Stage::Learning(learning) = &mut self.stage {
            let passed_us = now_us.zip(self.begun_us).map_or(0, |(now, begun)| now.saturating_sub(begun));
            let is_learned = record.lsn - self.begun >= plan.learn_bytes
                || passed_us >= plan.learn_us
                || learning.held_pages() >= plan.most_pages;
            if !is_learned && learning.add(record, &mut self.knowledge) {
                return;
            }
            let identity = WalIdentity { version: self.version, system_identifier: 0, segment_size };
            let request = Request { most_pages: Some(plan.most_pages), ..Request::new(&plan.targets) };
            let simulation = Box::new(Simulation::arriving(record.lsn, identity, &request));
            self.stage = Stage::Simulating { simulation, start: record.lsn };
            self.gaps.clear();
        } else {
            self.gaps.extend(gap);
        }
        if let Stage::Simulating { simulation, .. } = &mut self.stage {
            simulation.add(record, &mut self.knowledge);
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.knowledge.memory_bytes()
            + match &self.stage {
                Stage::Learning(learning) => learning.memory_bytes(),
                Stage::Simulating { simulation, .. } => simulation.memory_bytes(),
            }
    }
}
