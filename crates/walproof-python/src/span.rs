//! `wal_span`: where in the WAL a time begins and ends.
//!
//! Only ends of transactions have a time. These rise with the WAL, but for clocks that are set back, so that a few
//! segments tell where to look.

use std::sync::Arc;

use pyo3::prelude::*;
use walproof_wal::{Error, Lsn, Range, Reader, Segments, TransactionEnd, Watch};

use crate::source::{segments, RawSource};
use crate::watched::{watched, Observe};

/// First and last end of a transaction, in microseconds since 1970; None where no record has a time.
type Covered = Option<(i64, i64)>;

/// Where the last transaction ended before `since_us`, and where the first one ends after `until_us`: None where that
/// is outside of the WAL. Whether all ended before the one or after the other; if so, the time that the WAL covers.
#[pyfunction]
#[pyo3(signature = (paths, since_us, until_us, timeline, *, observe=None))]
pub fn wal_span(
    py: Python<'_>,
    paths: Vec<RawSource>,
    since_us: Option<i64>,
    until_us: Option<i64>,
    timeline: Option<u32>,
    observe: Observe<'_>,
) -> PyResult<(Option<u64>, Option<u64>, bool, Covered)> {
    let watch = Watch::default();
    watched(py, &watch, observe.as_ref(), || {
        let times = Times::of(segments(paths, &watch)?, timeline)?;
        let since = since_us.map(|since| times.first(|end| end >= since)).transpose()?;
        let until = until_us.map(|until| times.first(|end| end > until)).transpose()?;
        let is_after = since.as_ref().is_some_and(|place| place.at.is_none());
        let is_before = until.as_ref().is_some_and(|place| place.after.is_none() && place.at.is_some());
        let covered = if is_after || is_before { times.covered()? } else { None };
        let (start, end) = (since.and_then(|place| place.after), until.and_then(|place| place.at));
        Ok((start.map(|lsn| lsn.0), end.map(|lsn| lsn.0), is_after || is_before, covered))
    })
}

/// Numbers of segments.
type Indexes = std::ops::Range<usize>;

/// A place among the ends of transactions.
#[derive(Default)]
struct Gap {
    /// Where the record of the last end before it ends.
    after: Option<Lsn>,
    /// Where the record of the first end after it begins.
    at: Option<Lsn>,
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

    /// The first end of a transaction that is late enough, and the last one before it. `is_late` holds for all later
    /// times as well.
    fn first(&self, is_late: impl Fn(i64) -> bool) -> Result<Gap, Error> {
        // The first segment from which on no end is too early.
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_end_from(middle..high)? {
                Some((found, end)) if !is_late(end) => low = found + 1,
                _ => high = middle,
            }
        }
        let mut gap = Gap::default();
        self.ends_from(low.saturating_sub(1)..self.starts.len(), |end, from, to| {
            if is_late(end) {
                gap.at = Some(from);
            } else {
                gap.after = Some(to);
            }
            gap.at.is_some()
        })?;
        Ok(gap)
    }

    /// The first of these segments after whose start a transaction ended, and when it did.
    fn first_end_from(&self, range: Indexes) -> Result<Option<(usize, i64)>, Error> {
        let mut found = None;
        let index = self.ends_from(range, |end, _, _| {
            found = Some(end);
            true
        })?;
        Ok(index.zip(found))
    }

    /// From the first to the last end of a transaction.
    fn covered(&self) -> Result<Covered, Error> {
        let whole = 0..self.starts.len();
        let first = self.first_end_from(whole.clone())?;
        let mut last = None;
        for index in whole.rev() {
            let next = self.starts.get(index + 1);
            self.ends_from(index..index + 1, |end, from, _| {
                let is_further = next.is_some_and(|&next| from >= next);
                if !is_further {
                    last = Some(end);
                }
                is_further
            })?;
            if last.is_some() {
                break;
            }
        }
        Ok(first.map(|(_, end)| end).zip(last))
    }

    /// Hands over ends of transactions from the first of these segments on, with where their records begin and end,
    /// until one is the last that is wanted; the segment from whose start that was found. What stops a reader otherwise
    /// is the end of the WAL, or a gap or damage, after which it goes on with the next segment.
    fn ends_from(
        &self,
        indexes: Indexes,
        mut is_last: impl FnMut(i64, Lsn, Lsn) -> bool,
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
                    unless_interrupted(error)?;
                    continue;
                }
            };
            loop {
                match reader.next_record() {
                    Ok(Some(record)) => {
                        reached = record.end;
                        let end = TransactionEnd::from_record(&record);
                        if end.is_some_and(|end| is_last(end.time_unix_us, record.lsn, record.end)) {
                            return Ok(Some(index));
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        unless_interrupted(error)?;
                        break;
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Damage is told by who reads the span.
fn unless_interrupted(error: Error) -> Result<(), Error> {
    match error {
        Error::Interrupted => Err(error),
        _ => Ok(()),
    }
}
