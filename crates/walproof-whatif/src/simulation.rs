//! The pass over the recording: every record is made again for every target, with an image where that target's
//! last redo point asks for one.
//!
//! All targets see the same changes of the same pages in the same order, so when a page was last touched is the same
//! for all, in bytes of the recording; only their redo points differ. (A record that sets a hint bit exists only
//! where it carries an image. Where a target has none, its page was touched since the redo point, and still
//! is.) That is why one small table of pages serves any number of targets. Targets that log no hint bits at all
//! have a table of their own, since hint bits do not touch their pages; so do those whose keys come in order, since
//! these touch the last page of an index instead of any (`ordered`).

use std::sync::Arc;

use walproof_wal::{
    BlockRef, Error, ForkNumber, Gap, Lsn, PgVersion, Range, Reader, Record, RmgrId, Segments,
};
use walproof_wal::{TransactionEnd, WalIdentity};

use crate::clock::Clock;
use crate::growth::{followed_size, size_after, tuple_bytes};
use crate::images::HOLE_LENGTH_BYTES;
use crate::knowledge::{has_image, is_hint, ImageSample, Knowledge};
use crate::lane::{Cause, Lane, Now};
use crate::ordered::Ordered;
use crate::outcome::Outcome;
use crate::pages::{Page, Pages};
use crate::position::Positions;
use crate::recorded::{role, Recorded, Role, SourceCheckpoint};
use crate::request::Request;
use crate::sampler::{Sampler, Weight};
use crate::target::{ImageCompression, Target};

/// Bytes of the recording that are read before the simulation, to learn from.
const LEARN_BYTES: u64 = 64 << 20;
/// Of the references after them, the share that is learned from: one in so many records.
const LEARN_EVERY: u64 = 16;
/// References whose judgement waits for the next checkpoint to be complete, at most.
const UNJUDGED_MOST: usize = 1 << 20;
/// The same where memory has to be small.
const UNJUDGED_FEW: usize = 1 << 15;
/// Heap2, Heap and Btree, whose records are many: all others are learned from always.
const COMMON: [RmgrId; 3] = [RmgrId(9), RmgrId(10), RmgrId(11)];
const IMAGE_HEADER_BYTES: i32 = 5;
const BLOCK_SIZE: u16 = walproof_wal::BLOCK_SIZE;
const SWITCH: u8 = 0x40;
pub(crate) const CHECK_CONSISTENCY: u8 = 0x02;
/// Last touch of a page whose image does not depend on it.
const FORCED: i64 = -1;
/// What no last touch is below.
const NO_IMAGES: i64 = 0;

/// What the recording says and what each target would have written.
#[derive(Debug)]
pub struct WhatIf {
    /// What the WAL says of itself.
    pub identity: WalIdentity,
    /// Timeline of the first record's page.
    pub first_timeline: u32,
    /// Timeline of the last record's page.
    pub timeline: u32,
    /// Where the first record begins.
    pub start: Lsn,
    /// Where the last one ends.
    pub end: Lsn,
    /// Why there were no more records; None for the end that was asked for.
    pub finish_reason: Option<String>,
    /// WAL that was missing and passed over.
    pub gaps: Vec<Gap>,
    /// Facts of the recording.
    pub recorded: Recorded,
    /// What each method makes of the recording's images.
    pub sample: ImageSample,
    /// One for each target, in their order.
    pub outcomes: Vec<Outcome>,
}

/// Reads the recording once (and its first 64 MB twice) and simulates every target.
///
/// # Errors
/// As [`Reader::open`] and [`Reader::next_record`].
pub fn simulate(
    segments: impl Into<Arc<Segments>>,
    range: Range,
    request: &Request<'_>,
) -> Result<WhatIf, Error> {
    let segments = segments.into();
    let mut knowledge = Knowledge::new(request.clock);
    knowledge.recall(request.samples.0, request.samples.1);
    let first = learn(Arc::clone(&segments), range, &mut knowledge)?;
    let mut reader = Reader::open(segments, range)?;
    reader.announce(1);
    let identity = reader.identity();
    let mut simulation = Simulation::new(first.unwrap_or(reader.first_lsn()), identity, request);
    let mut first_timeline = None;
    while let Some(record) = reader.next_record()? {
        simulation.add(&record, &mut knowledge);
        first_timeline.get_or_insert(reader.timeline());
    }
    let (timeline, start, end) = (reader.timeline(), reader.first_lsn(), reader.end_lsn());
    let gaps = reader.gaps().to_vec();
    let (recorded, outcomes) = simulation.finish(&knowledge);
    Ok(WhatIf {
        identity,
        first_timeline: first_timeline.unwrap_or(timeline),
        timeline,
        start,
        end,
        finish_reason: reader.into_finish().reason(),
        gaps,
        recorded,
        sample: knowledge.sample(),
        outcomes,
    })
}

/// Reads the beginning of the recording to learn from; where its first record is.
fn learn(segments: Arc<Segments>, range: Range, knowledge: &mut Knowledge<'_>) -> Result<Option<Lsn>, Error> {
    let mut reader = Reader::open(segments, range)?;
    let mut learning = Learning::default();
    while let Some(record) = reader.next_record()? {
        if !learning.add(&record, knowledge) {
            break;
        }
    }
    Ok(learning.first)
}

/// The pass over the beginning of a recording, to learn from.
#[derive(Debug)]
pub(crate) struct Learning {
    pages: Pages,
    /// Where the first record is.
    first: Option<Lsn>,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning { pages: Pages::new(false), first: None }
    }
}

impl Learning {
    /// Learns from the record that follows; false for one that is past the beginning.
    pub(crate) fn add(&mut self, record: &Record<'_>, knowledge: &mut Knowledge<'_>) -> bool {
        let start = *self.first.get_or_insert(record.lsn);
        if is_past_beginning(start, record.lsn) {
            return false;
        }
        let offset = record.end - start;
        for block in record.blocks {
            let fork = knowledge.forks.number(block.relation, block.fork);
            let page = self.pages.page(fork, block.block);
            let gap = (page.touched() > 0).then(|| offset as i64 - page.touched());
            knowledge.learn(record, block, fork, gap);
            *page = Page::new(offset, None);
        }
        true
    }

    /// Of WAL that arrives: its table is small where few pages are, and large where many are.
    pub(crate) fn arriving() -> Learning {
        Learning { pages: Pages::new(true), first: None }
    }

    /// Pages that it holds.
    pub(crate) fn held_pages(&self) -> u64 {
        self.pages.distinct()
    }

    /// Bytes that its table takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pages.memory_bytes()
    }
}

/// Whether a record is not among those that are learned from before the simulation.
pub(crate) fn is_past_beginning(start: Lsn, lsn: Lsn) -> bool {
    lsn - start > LEARN_BYTES
}

/// An image that some targets want.
#[derive(Clone, Copy, Debug)]
struct Want {
    /// How much the page counts.
    weight: Weight,
    /// When the page was last touched before: targets whose redo point is not before that want the image.
    touched: i64,
    /// The same of targets that log no hint bits.
    touched_unhinted: i64,
    /// The same of targets whose keys come in order.
    touched_ordered: i64,
    /// Whether the image's size is that of others.
    is_guess: bool,
    /// Bytes that the record is longer with the image than without, by way of storing it.
    bytes: [i32; ImageCompression::COUNT],
    /// Bytes of the image alone.
    image_bytes: [u16; ImageCompression::COUNT],
}

#[derive(Debug)]
pub(crate) struct Simulation {
    start: Lsn,
    version: PgVersion,
    positions: Positions,
    lanes: Vec<Lane>,
    /// By lane: pages last touched before that offset need an image. 0 without full-page images.
    limits: Vec<i64>,
    limit_most: i64,
    ways: Vec<ImageCompression>,
    now: Now,
    next_base: i64,
    next_us: i64,
    pages: Pages,
    /// When pages were touched but for hint bits; for targets that do not log these.
    unhinted: Option<Pages>,
    /// The same where keys come in order.
    ordered: Option<Ordered>,
    /// None where all pages are held.
    sampler: Option<Sampler>,
    /// None where ends of transactions tell the time.
    clock: Option<Clock>,
    wants: Vec<Want>,
    recorded: Recorded,
    /// Last redo point of the recording's server, in bytes of the recording.
    source_redo: Option<i64>,
    /// References since the last complete checkpoint, before 17: until the next one is complete, its redo point is
    /// not known. Where, when the page was last touched before, and whether there is an image.
    unjudged: Vec<(i64, i64, bool)>,
    unjudged_most: usize,
    /// Bytes behind the start that were learned from before.
    learned: u64,
}

impl Simulation {
    /// Of WAL of which nothing was read before, and which never ends.
    pub(crate) fn arriving(start: Lsn, identity: WalIdentity, request: &Request<'_>) -> Simulation {
        let simulation = Simulation::new(start, identity, request);
        Simulation { learned: 0, unjudged_most: UNJUDGED_FEW, ..simulation }
    }

    pub(crate) fn new(start: Lsn, identity: WalIdentity, request: &Request<'_>) -> Simulation {
        let targets = request.targets;
        let is_sample = request.most_pages.is_some();
        let positions = Positions::new(identity.segment_size);
        let lanes: Vec<Lane> = targets.iter().map(|target| Lane::new(*target, start, positions)).collect();
        let mut ways: Vec<ImageCompression> = Vec::new();
        for target in targets {
            if !ways.contains(&target.compression) {
                ways.push(target.compression);
            }
        }
        let mut simulation = Simulation {
            start,
            version: identity.version,
            positions,
            limits: targets.iter().map(|target| i64::from(target.full_page_writes)).collect(),
            limit_most: 0,
            lanes,
            ways,
            now: Now { base_usable: positions.usable(start), ..Now::default() },
            next_base: 0,
            next_us: i64::MAX,
            pages: Pages::new(is_sample),
            unhinted: targets.iter().any(|target| !target.hint_records).then(|| Pages::new(is_sample)),
            ordered: Ordered::new(request),
            sampler: request.most_pages.map(Sampler::new),
            clock: Clock::new(start, request.times),
            wants: Vec::new(),
            recorded: Recorded::default(),
            source_redo: None,
            unjudged: Vec::new(),
            unjudged_most: UNJUDGED_MOST,
            learned: LEARN_BYTES,
        };
        simulation.refresh();
        simulation
    }

    /// Finds out again what comes next.
    fn refresh(&mut self) {
        self.limit_most = self.limits.iter().copied().max().unwrap_or(0);
        self.next_base = self.lanes.iter().map(Lane::next_base).min().unwrap_or(i64::MAX);
        self.next_us = self.lanes.iter().map(Lane::next_us).min().unwrap_or(i64::MAX);
    }

    /// Takes the record that follows.
    pub(crate) fn add(&mut self, record: &Record<'_>, knowledge: &mut Knowledge<'_>) {
        let total = i64::from(record.header.total_length);
        self.now.offset = record.end - self.start;
        if let Some(time_us) = self.clock.as_mut().and_then(|clock| clock.time_us(self.now.offset)) {
            self.recorded.first_time_us.get_or_insert(time_us);
            self.recorded.last_time_us = Some(time_us);
            self.set_time(time_us);
        }
        self.recorded.records += 1;
        self.recorded.record_bytes += total as u64;
        let is_learning = self.now.offset > self.learned
            && (self.recorded.records % LEARN_EVERY == 0 || !COMMON.contains(&record.header.rmgr));
        match role(record) {
            Role::Complete(checkpoint, has_images) => {
                self.recorded.full_page_writes_off |= !has_images;
                self.recorded.checkpoints.push(checkpoint);
                if self.recorded.first_time_us.is_none() && self.clock.is_none() {
                    self.set_time(checkpoint.at.saturating_mul(1_000_000));
                }
                if self.version < PgVersion::V17 {
                    self.judge_up_to(Lsn(checkpoint.redo));
                }
                if checkpoint.is_shutdown {
                    self.source_redo = Some(self.now.offset as i64);
                    self.all_begin(Cause::Shutdown);
                }
                return self.catch_up();
            }
            Role::Redo => {
                self.source_redo = Some((record.lsn - self.start) as i64);
                return;
            }
            Role::Snapshot => return,
            Role::Recovered => self.all_begin(Cause::Shutdown),
            Role::ImagesChanged => self.recorded.full_page_writes_off = true,
            Role::BackupEnd => self.recorded.has_backup = true,
            Role::None => {}
        }
        if is_hint(record) {
            self.add_hint(record, knowledge);
        } else {
            let base = self.add_blocks(record, knowledge, is_learning);
            let aligned = align(base);
            self.now.base_usable += aligned as u64;
            if !self.wants.is_empty() {
                self.add_images(base, aligned);
            }
            if record.header.rmgr == RmgrId::XLOG && record.header.info & 0xF0 == SWITCH {
                self.switch_segment();
            }
            if let Some(end) = TransactionEnd::from_record(record).filter(|_| self.clock.is_none()) {
                self.add_time(end.time_unix_us);
            }
        }
        self.catch_up();
    }

    /// Judges the references before a complete checkpoint, whose redo point is known now (before 17).
    fn judge_up_to(&mut self, redo: Lsn) {
        let after = (redo >= self.start).then(|| (redo - self.start) as i64);
        for (offset, touched, is_imaged) in std::mem::take(&mut self.unjudged) {
            let redo = if after.is_some_and(|after| offset > after) { after } else { self.source_redo };
            self.recorded.agreement.add(redo, touched, is_imaged);
        }
        self.source_redo = after.or(self.source_redo);
    }

    /// Goes through the blocks; the length of the record without any image, and `self.wants`.
    fn add_blocks(&mut self, record: &Record<'_>, knowledge: &mut Knowledge<'_>, is_learning: bool) -> i64 {
        self.wants.clear();
        let mut base = i64::from(record.header.total_length);
        let offset = self.now.offset;
        let is_checked = record.header.info & CHECK_CONSISTENCY != 0;
        for block in record.blocks {
            let fork = knowledge.forks.number(block.relation, block.fork);
            let is_imaged = has_image(block);
            self.recorded.references += 1;
            if let Some(image) = block.image {
                self.recorded.images += 1;
                self.recorded.image_bytes += u64::from(image.length);
                self.recorded.has_consistency_images |= !image.apply;
            }
            if !knowledge.has_hint_records && !is_imaged && record.only_marks_visible(block) {
                continue;
            }
            let Some(weight) = self.weight(fork, block.block) else {
                if !is_checked {
                    base += restored_bytes(record, block, fork, knowledge).1;
                }
                knowledge.learn_image(record, block, fork);
                continue;
            };
            let page = self.pages.page(fork, block.block);
            let (touched, size) = (page.touched(), page.size());
            let tuples = knowledge.tuples(fork);
            let mut after = size_after(record, block, size, tuples);
            if let Some(bytes) = tuple_bytes(record, block) {
                knowledge.add_tuple(fork, bytes);
            }
            if let (None, Some(before)) = (after, size) {
                // Something was taken away. Better too large than a size of other relations.
                after = Some(before).filter(|_| !knowledge.has_mean(fork));
            }
            *page = Page::new(offset, after);
            let touched_unhinted = match &mut self.unhinted {
                None => touched,
                Some(_) if record.only_marks_visible(block) => i64::MAX,
                Some(pages) => {
                    let page = pages.page(fork, block.block);
                    std::mem::replace(page, Page::new(offset, None)).touched()
                }
            };
            let touched_ordered = match &mut self.ordered {
                None => touched,
                Some(ordered) => ordered.touch(record, block, fork, offset),
            };
            if touched == 0 {
                self.count_page(fork);
            }
            if let (Some(size), false) = (after, is_imaged) {
                knowledge.follow(fork, size);
            }
            if is_checked {
                // There are images of everything, whatever the settings.
                continue;
            }
            let is_forced = is_imaged && knowledge.is_forced(record, block);
            if !block.will_init && !is_forced {
                self.compare(block, touched, is_imaged, weight);
            }
            if is_learning && !block.will_init {
                let gap = (touched > 0).then(|| offset as i64 - touched);
                knowledge.learn(record, block, fork, gap);
            } else if is_imaged {
                knowledge.learn_image(record, block, fork);
            }
            let (restored, change) = restored_bytes(record, block, fork, knowledge);
            base += change;
            if let Some(image) = block.image.filter(|image| image.apply) {
                if let Some(expected) = size.and_then(|_| followed_size(record, block, size, tuples)) {
                    self.recorded.agreement.expected_bytes += u64::from(expected);
                    self.recorded.agreement.found_bytes += u64::from(image.uncompressed_length());
                }
            }
            let (touched, touched_unhinted, touched_ordered) = if is_forced {
                (FORCED, FORCED, FORCED)
            } else {
                (touched, touched_unhinted, touched_ordered)
            };
            if block.will_init && !is_imaged
                || touched.min(touched_unhinted).min(touched_ordered) >= self.limit_most.max(NO_IMAGES)
            {
                continue;
            }
            let dropped = match (is_imaged, block.data_length) {
                (true, _) => restored,
                (false, 0) => 0,
                (false, _) if knowledge.keeps_data(record, block, fork) => 0,
                (false, data) => u32::from(data),
            };
            let mut want = Want {
                weight,
                touched,
                touched_unhinted,
                touched_ordered,
                is_guess: !is_imaged && after.is_none(),
                bytes: [0; ImageCompression::COUNT],
                image_bytes: [0; ImageCompression::COUNT],
            };
            let plain = after.unwrap_or_else(|| knowledge.mean_size(fork));
            for way in &self.ways {
                let (image_bytes, header) = image_cost(block, plain, *way, knowledge, fork);
                let at = way.index();
                if let (Some(bytes), Some(image)) = (want.bytes.get_mut(at), want.image_bytes.get_mut(at)) {
                    *bytes = i32::from(image_bytes) + header - dropped as i32;
                    *image = image_bytes;
                }
            }
            self.wants.push(want);
        }
        base
    }

    /// How much the page counts; None for one that is not in the sample.
    #[inline]
    fn weight(&self, fork: ForkNumber, block: u32) -> Option<Weight> {
        match &self.sampler {
            None => Some(Weight::ONE),
            Some(sampler) => sampler.weight(fork, block),
        }
    }

    /// Counts a page that is held now, and lets others go where there are too many.
    fn count_page(&mut self, fork: ForkNumber) {
        let Some(sampler) = &mut self.sampler else { return };
        let Some(full) = sampler.add(fork) else { return };
        let left = self.pages.retain(full, |block| sampler.holds(full, block));
        if let Some(unhinted) = &mut self.unhinted {
            unhinted.retain(full, |block| sampler.holds(full, block));
        }
        if let Some(ordered) = &mut self.ordered {
            ordered.retain(full, |block| sampler.holds(full, block));
        }
        sampler.thinned(full, left);
    }

    /// Whether the rule says of the recording's own server what the recording has.
    fn compare(&mut self, block: &BlockRef, touched: i64, is_imaged: bool, weight: Weight) {
        if touched == 0 {
            let is_begun_before = !is_imaged && block.fork != 1;
            self.recorded.begun_before += u64::from(is_begun_before) * weight.pages as u64;
            return;
        }
        if self.version >= PgVersion::V17 {
            self.recorded.agreement.add(self.source_redo, touched, is_imaged);
        } else if self.unjudged.len() < self.unjudged_most {
            self.unjudged.push((self.now.offset as i64, touched, is_imaged));
        }
    }

    /// Makes the record longer for the targets that want images.
    fn add_images(&mut self, base: i64, aligned: i64) {
        let mut next_base = i64::MAX;
        for (lane, limit) in self.lanes.iter_mut().zip(&self.limits) {
            let at = lane.target.compression.index();
            let (mut more, mut any) = (0i64, false);
            for want in &self.wants {
                let touched = match lane.target {
                    Target { ordered_keys: true, .. } => want.touched_ordered,
                    Target { hint_records: false, .. } => want.touched_unhinted,
                    _ => want.touched,
                };
                if touched >= *limit {
                    continue;
                }
                let image = u64::from(want.image_bytes.get(at).copied().unwrap_or(0));
                let bytes = i64::from(want.bytes.get(at).copied().unwrap_or(0));
                if want.weight == Weight::ONE {
                    any = true;
                    more += bytes;
                } else {
                    lane.add_sampled(align(base + bytes) - aligned, want.weight);
                }
                lane.add_image(image, want.weight, touched == 0, want.is_guess);
            }
            if any {
                lane.extra += align(base + more) - aligned;
            }
            next_base = next_base.min(lane.next_base());
        }
        self.next_base = next_base;
    }

    /// A record that is there for its image, where there is one.
    fn add_hint(&mut self, record: &Record<'_>, knowledge: &mut Knowledge<'_>) {
        let total = i64::from(record.header.total_length);
        let mut next_base = i64::MAX;
        for block in record.blocks {
            let fork = knowledge.forks.number(block.relation, block.fork);
            self.recorded.references += 1;
            let Some(image) = block.image else { continue };
            self.recorded.images += 1;
            self.recorded.hint_images += 1;
            self.recorded.image_bytes += u64::from(image.length);
            knowledge.learn_image(record, block, fork);
            let Some(weight) = self.weight(fork, block.block) else { continue };
            let page = self.pages.page(fork, block.block);
            let touched = page.touched();
            *page = Page::new(self.now.offset, Some(image.uncompressed_length().max(1)));
            let touched_ordered = match &mut self.ordered {
                None => touched,
                Some(ordered) => ordered.touch(record, block, fork, self.now.offset),
            };
            if touched > 0 {
                self.compare(block, touched, true, weight);
            } else {
                self.count_page(fork);
            }
            let bare = total - i64::from(image.length) - i64::from(image_header(image));
            for (lane, limit) in self.lanes.iter_mut().zip(&self.limits) {
                let touched = if lane.target.ordered_keys { touched_ordered } else { touched };
                if !lane.target.hint_records {
                    // Neither the record nor the touch of its page.
                } else if touched < *limit {
                    let plain = image.uncompressed_length();
                    let (bytes, header) = image_cost(block, plain, lane.target.compression, knowledge, fork);
                    let whole = align(bare + i64::from(bytes) + i64::from(header));
                    lane.add_sampled(whole, weight);
                    lane.add_image(u64::from(bytes), weight, touched == 0, false);
                } else if !lane.target.full_page_writes && touched < lane.redo_offset + 1 {
                    // Without full-page images the record is written as well, and empty.
                    lane.add_sampled(align(bare), weight);
                }
                next_base = next_base.min(lane.next_base());
            }
        }
        self.next_base = self.next_base.min(next_base);
    }

    /// XLOG/SWITCH: every server leaves the rest of its own segment empty.
    fn switch_segment(&mut self) {
        for lane in &mut self.lanes {
            let usable = lane.usable(self.now);
            let end = self.positions.segment_start(self.positions.segment(usable.saturating_sub(1)) + 1);
            lane.extra += end.saturating_sub(usable) as i64;
        }
        self.refresh();
    }

    fn add_time(&mut self, time_us: i64) {
        if let Some(last) = self.recorded.last_time_us {
            self.recorded.longest_silence_us =
                self.recorded.longest_silence_us.max(time_us.saturating_sub(last));
        }
        self.recorded.first_time_us.get_or_insert(time_us);
        self.recorded.last_time_us = self.recorded.last_time_us.max(Some(time_us));
        self.set_time(time_us);
    }

    fn set_time(&mut self, time_us: i64) {
        if self.now.time_us.is_none() {
            self.lanes.iter_mut().for_each(|lane| lane.start_clock(time_us));
            self.refresh();
        }
        self.now.time_us = self.now.time_us.max(Some(time_us));
    }

    /// Lets every server do what is due.
    #[inline]
    fn catch_up(&mut self) {
        if (self.now.base_usable as i64) < self.next_base
            && self.now.time_us.is_none_or(|time| time < self.next_us)
        {
            return;
        }
        for (lane, limit) in self.lanes.iter_mut().zip(&mut self.limits) {
            if lane.catch_up(self.now, self.positions) {
                *limit = limit_at(lane, self.now);
            }
        }
        self.refresh();
    }

    fn all_begin(&mut self, cause: Cause) {
        for (lane, limit) in self.lanes.iter_mut().zip(&mut self.limits) {
            lane.begin(self.now, cause, self.positions);
            *limit = limit_at(lane, self.now);
        }
        self.refresh();
    }

    pub(crate) fn finish(self, knowledge: &Knowledge<'_>) -> (Recorded, Vec<Outcome>) {
        self.told(knowledge)
    }

    /// What there is up to now.
    pub(crate) fn told(&self, knowledge: &Knowledge<'_>) -> (Recorded, Vec<Outcome>) {
        let held_pages = self.pages.distinct();
        let recorded = Recorded {
            has_hint_records: knowledge.has_hint_records,
            compression: knowledge.method(),
            held_pages,
            pages: self.sampler.as_ref().map_or(held_pages, |sampler| sampler.pages().1),
            memory_bytes: self.pages_bytes(),
            ..self.recorded.clone()
        };
        let (start, now, positions) = (self.start, self.now, self.positions);
        let outcomes =
            self.lanes.iter().map(|lane| Outcome::new(lane.clone(), start, now, positions)).collect();
        (recorded, outcomes)
    }

    fn pages_bytes(&self) -> u64 {
        let ordered = self.ordered.as_ref().map_or(0, Ordered::memory_bytes);
        self.pages.memory_bytes() + self.unhinted.as_ref().map_or(0, Pages::memory_bytes) + ordered
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let lanes = self.lanes.len() * size_of::<Lane>();
        let unjudged = self.unjudged.capacity() * size_of::<(i64, i64, bool)>();
        let checkpoints = self.recorded.checkpoints.capacity() * size_of::<SourceCheckpoint>();
        self.pages_bytes() + (lanes + unjudged + checkpoints) as u64
    }
}

fn limit_at(lane: &Lane, now: Now) -> i64 {
    if lane.target.full_page_writes {
        now.offset as i64 + 1
    } else {
        NO_IMAGES
    }
}

/// Data that the block's image stands for, which the record would have without it; by how much the record would be
/// longer. Both are 0 without an image.
fn restored_bytes(
    record: &Record<'_>,
    block: &BlockRef,
    fork: ForkNumber,
    knowledge: &Knowledge<'_>,
) -> (u32, i64) {
    let Some(image) = block.image.filter(|image| image.apply) else { return (0, 0) };
    let data = if block.data_length == 0 { knowledge.bare_data_bytes(record, block, fork) } else { 0 };
    (data, i64::from(data) - i64::from(image.length) - i64::from(image_header(image)))
}

/// Bytes of an image stored that way, and of its header.
fn image_cost(
    block: &BlockRef,
    plain: u16,
    way: ImageCompression,
    knowledge: &Knowledge<'_>,
    fork: u32,
) -> (u16, i32) {
    let recorded = block.image.filter(|image| image.apply);
    let as_recorded = recorded.filter(|image| match way {
        ImageCompression::AsRecorded => true,
        ImageCompression::Off => image.compression.is_none(),
        ImageCompression::Method(method) => image.compression == Some(method),
    });
    if let Some(image) = as_recorded {
        return (image.length, image_header(image));
    }
    let stored = knowledge.stored_bytes(plain, fork, way);
    let has_hole_length = stored < plain && plain < BLOCK_SIZE;
    (stored, IMAGE_HEADER_BYTES + if has_hole_length { i32::from(HOLE_LENGTH_BYTES) } else { 0 })
}

/// Bytes of an image's header in its record.
fn image_header(image: walproof_wal::Image) -> i32 {
    let states_hole = image.compression.is_some() && image.hole_length > 0;
    IMAGE_HEADER_BYTES + if states_hole { i32::from(HOLE_LENGTH_BYTES) } else { 0 }
}

/// Records are filled up to multiples of 8.
fn align(length: i64) -> i64 {
    (length + 7) & !7
}
