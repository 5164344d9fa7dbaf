//! One simulated server: where its WAL is, when its checkpoints begin and end, and what it has written.

use walproof_wal::Lsn;

use crate::position::Positions;
use crate::sampler::{Weight, GROUPS};
use crate::target::Target;

/// Records that a checkpoint writes: CHECKPOINT_ONLINE (114 bytes, 122 in 19), RUNNING_XACTS (about 50), and
/// CHECKPOINT_REDO from 17 (30), each filled up to a multiple of 8.
const CHECKPOINT_BYTES: u64 = 120 + 56 + 32;
/// A checkpoint that is due while another one runs waits for it. A server naps 100 ms at a time while it spreads
/// its writes (`CheckpointWriteDelay`), so a spacing whose last part, in which nothing is written, is hardly longer
/// than that makes checkpoints late.
const NAP_S: f64 = 0.1;
const MICROSECONDS: f64 = 1e6;

/// Why a checkpoint began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// `max_wal_size`.
    Size,
    /// `checkpoint_timeout`.
    Time,
    /// The recording's server was shut down there, or promoted.
    Shutdown,
}

/// Where the simulation is, the same for every server: in the recording, not in the server's own WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Bytes of the recording after its start.
    pub(crate) offset: u64,
    /// Usable bytes of a server that writes no image at all.
    pub(crate) base_usable: u64,
    /// Microseconds since 1970; None before the first commit.
    pub(crate) time_us: Option<i64>,
}

/// What a server wrote up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) now: Now,
    pub(crate) usable: u64,
    pub(crate) images: u64,
}

/// Whole cycles one by one: what their differences tell of the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    count: f64,
    wal: f64,
    base: f64,
    wal_squares: f64,
    base_squares: f64,
    products: f64,
}

impl Spread {
    fn add(&mut self, wal: f64, base: f64) {
        self.count += 1.0;
        self.wal += wal;
        self.base += base;
        self.wal_squares += wal * wal;
        self.base_squares += base * base;
        self.products += wal * base;
    }

    /// Standard error of WAL for these records, as a share; None of fewer than two cycles.
    pub(crate) fn error(&self) -> Option<f64> {
        if self.count < 2.0 || self.base <= 0.0 || self.wal <= 0.0 {
            return None;
        }
        let ratio = self.wal / self.base;
        let rest = self.wal_squares - 2.0 * ratio * self.products + ratio * ratio * self.base_squares;
        Some((rest.max(0.0) * self.count / (self.count - 1.0)).sqrt() / self.wal)
    }
}

/// A simulated server.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) target: Target,
    /// Usable bytes more than a server without images.
    pub(crate) extra: i64,
    pub(crate) images: u64,
    pub(crate) image_bytes: u64,
    /// Of the images, those of pages that the recording had not touched before.
    pub(crate) first_images: u64,
    pub(crate) first_image_bytes: u64,
    /// Of the images, those whose size is the mean of others.
    pub(crate) guessed_images: u64,
    /// Bytes that images of sampled pages add, by part of the sample.
    pub(crate) sampled: [i64; GROUPS],
    /// Bytes of the recording up to the last redo point.
    pub(crate) redo_offset: i64,
    pub(crate) by_size: u64,
    pub(crate) by_time: u64,
    /// The first redo point and the last one: between them are whole cycles.
    pub(crate) first_redo: Option<Mark>,
    pub(crate) last_redo: Option<Mark>,
    pub(crate) cycles: u64,
    pub(crate) late_cycles: u64,
    pub(crate) spread: Spread,
    pub(crate) distance_most: u64,
    pub(crate) segments_most: u64,
    segments: Option<u64>,
    redo: u64,
    /// Redo point of the last complete checkpoint: where recovery would begin.
    recovery_redo: u64,
    /// The same place in the recording, in bytes after its start.
    recovery_offset: u64,
    distance_area: f64,
    distance_since: u64,
    start: u64,
    /// The checkpoint under way ends at the first of both.
    ends_at: Option<(u64, i64)>,
    due_usable: u64,
    due_us: i64,
    oldest_segment: u64,
    newest_segment: u64,
    distance_estimate: f64,
}

impl Lane {
    pub(crate) fn new(target: Target, start: Lsn, positions: Positions) -> Lane {
        let usable = positions.usable(start);
        let segment = positions.segment(usable);
        let segments = target.checkpoint_segments(positions.segment_size() as u32);
        let mut lane = Lane {
            target,
            extra: 0,
            images: 0,
            image_bytes: 0,
            first_images: 0,
            first_image_bytes: 0,
            guessed_images: 0,
            sampled: [0; GROUPS],
            redo_offset: 0,
            by_size: 0,
            by_time: 0,
            first_redo: None,
            last_redo: None,
            cycles: 0,
            late_cycles: 0,
            spread: Spread::default(),
            distance_most: 0,
            segments_most: 1,
            segments,
            redo: usable,
            recovery_redo: usable,
            recovery_offset: 0,
            distance_area: 0.0,
            distance_since: usable,
            start: usable,
            ends_at: None,
            due_usable: u64::MAX,
            due_us: i64::MAX,
            oldest_segment: segment,
            newest_segment: segment,
            distance_estimate: 0.0,
        };
        if let Some(segments) = segments {
            // The part of the cycle that was over when the recording began.
            let over = (segments as f64 * target.phase.clamp(0.0, 1.0)) as u64;
            lane.due_usable = positions.segment_start(segment + (segments - over).max(1));
        }
        if target.phase <= 0.0 {
            let now = Now { base_usable: usable, ..Now::default() };
            lane.first_redo = Some(Mark { now, usable, images: 0 });
            lane.last_redo = lane.first_redo;
        }
        lane
    }

    /// The first time that is known: timeouts run from there.
    pub(crate) fn start_clock(&mut self, time_us: i64) {
        if let Some(timeout_us) = self.timeout_us() {
            // The phase is of the cycle that the recording began in; one that has begun since is whole.
            let over = if self.last_redo.is_some() { 0.0 } else { self.target.phase.clamp(0.0, 1.0) };
            let left = (timeout_us as f64 * (1.0 - over)) as i64;
            self.due_us = time_us.saturating_add(left);
        }
        for mark in [&mut self.first_redo, &mut self.last_redo].into_iter().flatten() {
            mark.now.time_us.get_or_insert(time_us);
        }
    }

    fn timeout_us(&self) -> Option<i64> {
        self.target.checkpoint_timeout_s.map(|seconds| (seconds * 1_000_000) as i64)
    }

    pub(crate) fn usable(&self, now: Now) -> u64 {
        now.base_usable.saturating_add_signed(self.extra)
    }

    /// Adds bytes of one page, which may stand for others.
    pub(crate) fn add_sampled(&mut self, bytes: i64, weight: Weight) {
        let all = bytes * weight.pages;
        self.extra += all;
        if weight.pages > 1 {
            if let Some(group) = self.sampled.get_mut(weight.group) {
                *group += all;
            }
        }
    }

    /// Counts an image.
    #[inline]
    pub(crate) fn add_image(&mut self, bytes: u64, weight: Weight, is_first: bool, is_guess: bool) {
        let pages = weight.pages as u64;
        self.images += pages;
        self.image_bytes += bytes * pages;
        self.first_images += pages * u64::from(is_first);
        self.first_image_bytes += bytes * pages * u64::from(is_first);
        self.guessed_images += pages * u64::from(is_guess);
    }

    /// Usable bytes of a server without images at which something happens here.
    #[inline]
    pub(crate) fn next_base(&self) -> i64 {
        let ends = self.ends_at.map_or(u64::MAX, |(usable, _)| usable);
        i64::try_from(self.due_usable.min(ends)).unwrap_or(i64::MAX).saturating_sub(self.extra)
    }

    /// The time at which something happens here.
    pub(crate) fn next_us(&self) -> i64 {
        self.due_us.min(self.ends_at.map_or(i64::MAX, |(_, time)| time))
    }

    /// Does what is due; whether a checkpoint began, so that `now` is its redo point.
    pub(crate) fn catch_up(&mut self, now: Now, positions: Positions) -> bool {
        let usable = self.usable(now);
        let time = now.time_us.unwrap_or(i64::MIN);
        if self.ends_at.is_some_and(|(end, end_us)| usable >= end || time >= end_us) {
            self.complete(usable, positions);
        }
        let cause = if usable >= self.due_usable {
            Cause::Size
        } else if time >= self.due_us {
            Cause::Time
        } else {
            return false;
        };
        self.begin(now, cause, positions);
        true
    }

    /// Begins a checkpoint: its redo point is here.
    pub(crate) fn begin(&mut self, now: Now, cause: Cause, positions: Positions) {
        let usable = self.usable(now);
        if self.ends_at.is_some() {
            self.complete(usable, positions);
        }
        match cause {
            Cause::Size => self.by_size += 1,
            Cause::Time => self.by_time += 1,
            Cause::Shutdown => {}
        }
        let mark = Mark { now, usable, images: self.images };
        if let Some(last) = self.last_redo {
            self.cycles += 1;
            let is_late = cause == Cause::Size && self.is_late_after(last.now.time_us, now.time_us);
            self.late_cycles += u64::from(is_late);
            let base = now.base_usable.saturating_sub(last.now.base_usable);
            self.spread.add(usable.saturating_sub(last.usable) as f64, base as f64);
        }
        self.first_redo.get_or_insert(mark);
        self.last_redo = Some(mark);
        let distance = (usable - self.redo) as f64;
        self.distance_estimate = if self.distance_estimate < distance {
            distance
        } else {
            0.90 * self.distance_estimate + 0.10 * distance
        };
        self.redo = usable;
        self.redo_offset = now.offset as i64;
        self.newest_segment = self.newest_segment.max(positions.segment(usable));
        self.segments_most = self.segments_most.max(self.newest_segment - self.oldest_segment + 1);
        let (mut end, mut end_us) = (u64::MAX, i64::MAX);
        let share = self.target.completion_target.clamp(0.0, 1.0);
        if let Some(segments) = self.segments {
            self.due_usable = positions.segment_start(positions.segment(usable) + segments);
            let spread = share * positions.segment_start(segments) as f64;
            end = usable.saturating_add(spread as u64);
        }
        if let (Some(timeout), Some(time)) = (self.timeout_us(), now.time_us) {
            let began = if cause == Cause::Time { self.due_us } else { time };
            // A server that was idle for several timeouts skips all but the first.
            let over = time.saturating_sub(began) / timeout.max(1);
            self.due_us = began.saturating_add(timeout.saturating_mul(over.saturating_add(1)));
            end_us = began.saturating_add((share * timeout as f64) as i64).max(time);
        }
        self.ends_at = Some((end, end_us));
        if cause == Cause::Shutdown || (end, end_us) == (u64::MAX, i64::MAX) {
            self.complete(usable, positions);
        }
        self.extra += CHECKPOINT_BYTES as i64;
    }

    /// Whether a cycle was so short that the server was busy with the checkpoint when the next one was due.
    fn is_late_after(&self, from_us: Option<i64>, to_us: Option<i64>) -> bool {
        let (Some(from), Some(to)) = (from_us, to_us) else { return false };
        // Damaged times may be as far apart as numbers allow.
        let spacing_s = to.saturating_sub(from) as f64 / MICROSECONDS;
        spacing_s * (1.0 - self.target.completion_target.clamp(0.0, 1.0)) < NAP_S
    }

    /// Ends the checkpoint under way: recovery would begin at its redo point, and older segments are recycled
    /// or removed (`RemoveOldXlogFiles`, `XLOGfileslop`).
    fn complete(&mut self, usable: u64, positions: Positions) {
        self.ends_at = None;
        self.measure_distance(usable);
        self.recovery_redo = self.redo;
        self.recovery_offset = self.redo_offset.max(0) as u64;
        let segment = positions.segment(self.redo);
        let size = positions.segment_size() as u32;
        self.newest_segment = self.newest_segment.max(positions.segment(usable));
        self.segments_most = self.segments_most.max(self.newest_segment - self.oldest_segment + 1);
        let share = self.target.completion_target.clamp(0.0, 1.0);
        let ahead = (1.0 + share) * self.distance_estimate * 1.10;
        let wanted = positions.segment(self.redo + ahead as u64) + 1;
        let recycled = wanted
            .max(segment + self.target.least_segments(size).saturating_sub(1))
            .min(segment + self.target.most_segments(size).saturating_sub(1));
        let freed = segment.saturating_sub(self.oldest_segment);
        self.newest_segment = recycled.min(self.newest_segment + freed).max(self.newest_segment);
        self.oldest_segment = segment;
    }

    /// Adds up the distance to redo since the last time.
    fn measure_distance(&mut self, usable: u64) {
        let (near, far) = (self.distance_since - self.recovery_redo, usable - self.recovery_redo);
        self.distance_area += (usable - self.distance_since) as f64 * (near as f64 + far as f64) / 2.0;
        self.distance_since = usable;
        self.distance_most = self.distance_most.max(far);
    }

    /// Ends the simulation; the mean distance to redo, and where the last redo point is in the recording.
    pub(crate) fn finish(&mut self, now: Now, positions: Positions) -> (f64, u64) {
        let usable = self.usable(now);
        self.measure_distance(usable);
        self.newest_segment = self.newest_segment.max(positions.segment(usable));
        self.segments_most = self.segments_most.max(self.newest_segment - self.oldest_segment + 1);
        let mean = self.distance_area / ((usable - self.start).max(1)) as f64;
        (mean, self.recovery_offset)
    }
}
