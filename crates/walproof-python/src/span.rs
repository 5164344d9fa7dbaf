//! `wal_span`: where in the WAL a time begins and ends.
//!
//! It goes by the ends of transactions. Their times rise with the WAL, so that a few segments tell where to look: but
//! for clocks that are set back, and for sessions that wait between taking the time and writing the record.

use std::sync::Arc;

use pyo3::prelude::*;
use walproof_wal::{Error, Lsn, Range, Reader, Segments, TransactionEnd, Watch};

use crate::source::{segments, RawSource};
use crate::watched::{watched, Observe};

/// How much later a transaction's end may stand in the WAL than one with a later time.
const DISORDER_US: i64 = 1_000_000;

/// Where it begins and ends; whether a record is in it, and the end of a transaction; when the last one ended before it
/// and the first one after it, in microseconds since 1970; where that one's record begins.
type Span = ((Option<u64>, Option<u64>), (bool, bool), (Option<i64>, Option<i64>), Option<u64>);

/// From where the last transaction ended before `since_us` to the end of the last one up to `until_us`; None where that
/// is outside of the WAL. If none ended in between, up to the next one.
#[pyfunction]
#[pyo3(signature = (paths, since_us, until_us, timeline, *, observe=None))]
pub fn wal_span(
    py: Python<'_>,
    paths: Vec<RawSource>,
    since_us: Option<i64>,
    until_us: Option<i64>,
    timeline: Option<u32>,
    observe: Observe<'_>,
) -> PyResult<Span> {
    let watch = Watch::default();
    watched(py, &watch, observe.as_ref(), || {
        let times = Times::of(segments(paths, &watch)?, timeline)?;
        let since = since_us.map(|since| times.begin(since)).transpose()?;
        let until = until_us.map(|until| times.end(until)).transpose()?;
        let has_end = match (&since, &until) {
            (Some(since), Some(until)) => since.at.zip(until.after).is_some_and(|(at, after)| at < after),
            (Some(since), None) => since.at.is_some(),
            (None, Some(until)) => until.after.is_some(),
            (None, None) => true,
        };
        let (since, until) = (since.unwrap_or_default(), until.unwrap_or_default());
        let start = since.after;
        let end = if has_end { until.at.and(until.after) } else { until.at };
        let has_records = match (start, end) {
            (Some(start), Some(end)) => start < end,
            (Some(start), None) => since.reached > start,
            (None, Some(end)) => until.first.is_some_and(|first| first < end),
            (None, None) => true,
        };
        let places = (start.map(|lsn| lsn.0), end.map(|lsn| lsn.0));
        Ok((places, (has_records, has_end), (since.after_us, until.at_us), until.at.map(|lsn| lsn.0)))
    })
}

/// Numbers of segments.
type Indexes = std::ops::Range<usize>;

/// A place between two ends of transactions.
#[derive(Default)]
struct Between {
    /// Where the record of the last end before it ends.
    after: Option<Lsn>,
    /// When that was.
    after_us: Option<i64>,
    /// Where the record of the first end after it begins.
    at: Option<Lsn>,
    /// When that was.
    at_us: Option<i64>,
    /// Where the first record begins that was read.
    first: Option<Lsn>,
    /// Where the last record ends that was read.
    reached: Lsn,
}

/// A record that was read.
struct Seen {
    from: Lsn,
    to: Lsn,
    /// When a transaction ended with it, in microseconds since 1970.
    ended_us: Option<i64>,
}

/// The times of some WAL.
struct Times {
    segments: Arc<Segments>,
    timeline: Option<u32>,
    /// Where segments begin, in order.
    starts: Vec<Lsn>,
}

impl Times {
    fn of(segments: Arc<Segments>, timeline: Option<u32>) -> Result<Times, Error> {
        let reader = Reader::open(Arc::clone(&segments), Range { timeline, ..Range::default() })?;
        let size = reader.identity().segment_size;
        let mut starts: Vec<Lsn> = segments.names().filter_map(|name| name.start(size)).collect();
        starts.dedup();
        Ok(Times { segments, timeline, starts })
    }

    /// Where the first transaction ends at or after a time.
    fn begin(&self, since_us: i64) -> Result<Between, Error> {
        let mut place = Between::default();
        self.read(self.before(|end| end >= since_us.saturating_sub(DISORDER_US))?, None, |seen| {
            place.note(seen, |end| end >= since_us);
            place.at.is_some()
        })?;
        Ok(place)
    }

    /// Where the first transaction ends after a time, and none that ended before it follows.
    fn end(&self, until_us: i64) -> Result<Between, Error> {
        let mut place = Between::default();
        self.read(self.before(|end| end > until_us)?, None, |seen| {
            place.note(seen, |end| end > until_us);
            seen.ended_us.is_some_and(|end| end > until_us.saturating_add(DISORDER_US))
        })?;
        Ok(place)
    }

    /// The segments from the last one on that begins before the first late end; `is_late` holds for all later times.
    fn before(&self, is_late: impl Fn(i64) -> bool) -> Result<Indexes, Error> {
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_end(middle..high)? {
                Some((found, end)) if !is_late(end) => low = found + 1,
                // Those from `high` on are late.
                _ => high = middle,
            }
        }
        Ok(low.saturating_sub(1)..self.starts.len())
    }

    /// The first end of a transaction in these segments, and in which it is.
    fn first_end(&self, indexes: Indexes) -> Result<Option<(usize, i64)>, Error> {
        let (limit, mut found) = (self.starts.get(indexes.end).copied(), None);
        let index = self.read(indexes, limit, |seen| {
            found = seen.ended_us;
            found.is_some()
        })?;
        Ok(index.zip(found))
    }

    /// Hands over the records of these segments that begin before the limit, until one is the last that is wanted; the
    /// segment from whose start that was found. After a gap or damage it goes on with the next segment.
    fn read(
        &self,
        indexes: Indexes,
        limit: Option<Lsn>,
        mut is_last: impl FnMut(&Seen) -> bool,
    ) -> Result<Option<usize>, Error> {
        let mut reached = Lsn(0);
        for index in indexes {
            let Some(&start) = self.starts.get(index).filter(|&&start| start >= reached) else {
                continue;
            };
            let range = Range { start: Some(start), timeline: self.timeline, ..Range::default() };
            let mut reader = match Reader::open(Arc::clone(&self.segments), range) {
                Ok(reader) => reader,
                Err(error) => {
                    unless_damage(error)?;
                    continue;
                }
            };
            loop {
                match reader.next_record() {
                    Ok(Some(record)) => {
                        if limit.is_some_and(|limit| record.lsn >= limit) {
                            return Ok(None);
                        }
                        reached = record.end;
                        let ended_us = TransactionEnd::from_record(&record).map(|end| end.time_unix_us);
                        if is_last(&Seen { from: record.lsn, to: record.end, ended_us }) {
                            return Ok(Some(index));
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        unless_damage(error)?;
                        break;
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Between {
    /// Takes the next record.
    fn note(&mut self, seen: &Seen, is_late: impl Fn(i64) -> bool) {
        self.first.get_or_insert(seen.from);
        self.reached = seen.to;
        match seen.ended_us {
            Some(end) if is_late(end) => {
                self.at.get_or_insert(seen.from);
                self.at_us.get_or_insert(end);
            }
            Some(end) => {
                (self.after, self.after_us) = (Some(seen.to), Some(end));
                (self.at, self.at_us) = (None, None);
            }
            None => {}
        }
    }
}

/// Missing and damaged WAL is told by who reads the span.
fn unless_damage(error: Error) -> Result<(), Error> {
    match error {
        Error::NoRecord { .. } | Error::MissingSegment { .. } | Error::Invalid { .. } => Ok(()),
        _ => Err(error),
    }
}
