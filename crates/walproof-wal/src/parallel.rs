//! Reads the parts of the WAL on several cores.
//!
//! Records can be found from the beginning of any segment, and all that is counted of them can be counted in
//! parts. So segments are read side by side, and the parts put together in order. Each part must follow from
//! the one before: its first record links to the last one there, and begins where that one ends. Where a part
//! does not (the end of the WAL, damage, a gap, a record that was given up), the parts after it are dropped,
//! and one reader goes on from the last record that is in order as if it had read everything itself. So it is
//! the same code, with the same words, that decides what is wrong, whatever the number of cores.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::accounting::Accounting;
use crate::error::Error;
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PAGE_SIZE};
use crate::reader::{Finish, Gap, Position, Range, Reader};
use crate::tally::Tally;

/// The most bytes of a part: enough that the beginning of a part costs next to nothing in comparison, but few
/// enough that the last parts keep all threads busy. A part is at least a segment.
const PART_SIZE: u64 = 16 << 20;

/// What was read of a part of the WAL.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) tally: Tally,
    pub(crate) accounting: Accounting,
    pub(crate) gaps: Vec<Gap>,
    /// Timeline of the last page that was looked at.
    pub(crate) timeline: u32,
    /// The file of that page.
    file: Option<SegmentName>,
    /// None when no record begins in the part.
    pub(crate) span: Option<Span>,
    /// Where the last record before the range begins and ends, as long as there is no span.
    passed: Option<(Lsn, Lsn)>,
    /// Whether reading came to the part's end, so that the next part may follow.
    is_open: bool,
}

/// Where the records of a part are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    pub(crate) end: Lsn,
    /// What the first record says is the record before.
    pub(crate) prev: Lsn,
    first_timeline: u32,
    /// Timeline in the name of the file that the first record was read from.
    first_file: u32,
    pub(crate) last_timeline: u32,
    /// The file that the last record was read from.
    last_file: Option<SegmentName>,
}

impl Counted {
    /// The counts of no WAL at all; any part may follow.
    fn empty() -> Counted {
        Counted {
            tally: Tally::default(),
            accounting: Accounting::default(),
            gaps: Vec::new(),
            timeline: 0,
            file: None,
            span: None,
            passed: None,
            is_open: true,
        }
    }

    /// Counts everything that `reader` gives, until it ends or fails.
    fn read(reader: &mut Reader) -> (Counted, Option<Error>) {
        let mut part = Counted::empty();
        let (mut last, mut last_timeline, mut last_file) = (Lsn(0), 0, None);
        let failure = loop {
            let prev = match reader.next_record() {
                Ok(Some(record)) => {
                    part.tally.add(&record);
                    last = record.lsn;
                    record.header.prev
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            (last_timeline, last_file) = (reader.timeline(), reader.file());
            if part.span.is_none() {
                part.span = Some(Span {
                    first: last,
                    last,
                    end: last,
                    prev,
                    first_timeline: last_timeline,
                    first_file: last_file.map_or(0, |file| file.timeline),
                    last_timeline,
                    last_file,
                });
            }
        };
        if let Some(span) = &mut part.span {
            // Not the reader's: it may have looked at pages after the last record.
            (span.last, span.end) = (last, reader.end_lsn());
            (span.last_timeline, span.last_file) = (last_timeline, last_file);
        }
        (part.timeline, part.file) = (reader.timeline(), reader.file());
        part.accounting = reader.accounting();
        part.gaps = reader.gaps().to_vec();
        part.passed = reader.passed();
        part.is_open = reader.is_stopped();
        (part, failure)
    }

    /// Appends the part that was read next.
    fn append(&mut self, next: Counted) {
        self.tally.append(next.tally);
        self.accounting += next.accounting;
        self.gaps.extend(next.gaps);
        self.timeline = self.timeline.max(next.timeline);
        self.file = next.file.or(self.file);
        self.is_open = next.is_open;
        self.passed = next.passed.or(self.passed);
        self.span = match (self.span, next.span) {
            (Some(before), Some(more)) => {
                let (first, prev) = (before.first, before.prev);
                let (first_timeline, first_file) = (before.first_timeline, before.first_file);
                Some(Span { first, prev, first_timeline, first_file, ..more })
            }
            (before, more) => before.or(more),
        };
    }

    /// Appends a part that was read separately, but only if it follows.
    fn followed_by(mut self, next: Counted, segment_size: u32) -> Counted {
        if !self.is_open {
            return self;
        }
        if let Some(more) = next.span {
            // Where no record leads there, pages were seen, whose timeline no later one may be older than.
            let timeline = self.span.map_or(self.timeline, |before| before.last_timeline);
            self.is_open = more.first_timeline.min(more.first_file) >= timeline;
            let mut between = Accounting::default();
            if let Some((last, end)) = self.span.map(|before| (before.last, before.end)).or(self.passed) {
                if more.first != end && end.offset_in(u64::from(PAGE_SIZE)) == 0 {
                    between.add_page_header(header_size_at(end, segment_size));
                }
                self.is_open &= more.prev == last && more.first == end.advance(between.total());
            }
            if !self.is_open {
                return self;
            }
            if self.span.is_some() {
                self.accounting += between;
            }
        }
        self.append(next);
        self
    }
}

/// Counts everything in the range, from where `start` is, on so many threads; returns why the WAL ends. What
/// was read before an error is returned with it.
pub(crate) fn read(start: Position, range: Range, threads: usize) -> (Counted, Result<Finish, Error>) {
    let segment_size = start.identity.segment_size;
    let mut pool = None;
    let mut whole = Counted::empty();
    let mut from = start.clone();
    loop {
        // Parts that were dropped are read again.
        from.segments.watch().reach(from.next.0.saturating_sub(start.next.0));
        let bounds = if threads > 1 { part_bounds(&from, range, threads) } else { Vec::new() };
        if bounds.len() > 2 && pool.is_none() {
            // Without threads there is one core's speed, and the same result.
            pool = ThreadPoolBuilder::new().num_threads(threads).build().ok();
        }
        if let (Some(pool), 3..) = (&pool, bounds.len()) {
            let parts = side_by_side(pool, &from, &bounds, range);
            whole.is_open = true;
            whole = whole.followed_by(parts, segment_size);
            from = behind(from, &whole);
        }
        // One step in order and with every check. It also tells why the WAL ends.
        let stop = bounds.iter().copied().find(|&bound| bound > from.next).unwrap_or(Lsn(u64::MAX));
        let mut reader = Reader::resume(&from, stop, range);
        let (step, failure) = Counted::read(&mut reader);
        let is_stopped = step.is_open;
        whole.append(step);
        if let Some(error) = failure {
            let is_elsewhere = from.next != start.next;
            return (whole, Err(if is_elsewhere { in_order(error, &start, range) } else { error }));
        }
        if !is_stopped {
            return (whole, Ok(reader.into_finish()));
        }
        from = match (whole.span, whole.passed) {
            (None, None) => Position {
                next: stop,
                timeline: from.timeline.max(whole.timeline),
                file: whole.file.or(from.file),
                ..from
            },
            _ => behind(from, &whole),
        };
    }
}

/// The error as one reader words it: where there is no record, the range's start is what led to none, and not the
/// beginning of a part.
fn in_order(error: Error, start: &Position, range: Range) -> Error {
    if !matches!(error, Error::NoRecord { .. }) {
        return error;
    }
    Counted::read(&mut Reader::resume(start, Lsn(u64::MAX), range)).1.unwrap_or(error)
}

/// Where to go on after what has been read.
fn behind(from: Position, whole: &Counted) -> Position {
    match (whole.span, whole.passed) {
        (None, None) => from,
        (None, Some((last, end))) => Position {
            next: end,
            passed: Some((from.passed.map_or(from.next, |(start, _)| start), last)),
            timeline: from.timeline.max(whole.timeline),
            file: whole.file.or(from.file),
            ..from
        },
        (Some(span), _) => Position {
            next: span.end,
            read: Some((span.first, span.last)),
            timeline: span.last_timeline,
            file: span.last_file,
            ..from
        },
    }
}

/// Where parts begin, and where the last one ends: at segments at hand.
fn part_bounds(from: &Position, range: Range, threads: usize) -> Vec<Lsn> {
    let size = from.identity.segment_size;
    let limit = range.end.unwrap_or(Lsn(u64::MAX));
    let starts: Vec<Lsn> = from
        .segments
        .names()
        .filter_map(|name| name.start(size))
        .filter(|start| (from.next..limit).contains(start))
        .collect();
    let Some(end) = starts.last().map(|start| start.advance(u64::from(size)).min(limit)) else {
        return Vec::new();
    };
    let part_size = PART_SIZE.min((end - from.next) / (4 * threads as u64));
    let mut bounds = vec![from.next];
    let mut last = from.next;
    for start in starts {
        if start - last >= part_size && start > last {
            bounds.push(start);
            last = start;
        }
    }
    bounds.push(end);
    bounds
}

fn side_by_side(pool: &ThreadPool, from: &Position, bounds: &[Lsn], range: Range) -> Counted {
    let apart = Range { allow_gaps: false, ..range };
    pool.install(|| {
        bounds
            .par_windows(2)
            .filter_map(|bound| match bound {
                [next, stop] => Some((*next, *stop)),
                _ => None,
            })
            .map(|(next, stop)| {
                let position = Position { next, read: None, passed: None, ..from.clone() };
                // Why a part ends early is found out again by who goes on there.
                Counted::read(&mut Reader::resume(&position, stop, apart)).0
            })
            .reduce(Counted::empty, |counted, next| counted.followed_by(next, from.identity.segment_size))
    })
}
