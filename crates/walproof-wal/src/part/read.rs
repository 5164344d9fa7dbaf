//! Reads a part: the one reader counts its whole records, and what it cannot see at the edges is kept here.

use std::sync::Arc;

use super::{End, Head, Part, Reach, RestEnd, Tail};
use crate::accounting::Accounting;
use crate::edge::{Begun, Rest, OPENING};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::page::PAGE_SIZE;
use crate::pages::Pages;
use crate::parallel;
use crate::reader::{Finish, Position, Range, Reader};
use crate::record::{ALIGNMENT, HEADER_SIZE};
use crate::rmgr::RmgrId;
use crate::source::Segments;
use crate::tally::Tally;

const PAGE: u64 = PAGE_SIZE as u64;
const XLOG_SWITCH: u8 = 0x40;

pub(super) fn read(segments: Arc<Segments>, range: Range, threads: usize) -> Result<Part, Error> {
    for lsn in [range.start, range.end].into_iter().flatten() {
        if lsn.offset_in(ALIGNMENT) != 0 {
            return Err(Error::PartBound { lsn });
        }
    }
    let base = Reader::open(segments, Range { allow_gaps: false, ..range })?.position();
    let from = base.next;
    if let Some(end) = range.end.filter(|end| *end <= from) {
        return Err(Error::EmptyRange { start: from, end });
    }
    within(&base, from, range.end, threads)
}

/// What stands at the beginning of a part.
enum Opening {
    Record,
    Overwrite,
    /// So many bytes of a record from before.
    Rest(u32),
    Unused,
}

/// The part between two locations of WAL that is known.
fn within(base: &Position, from: Lsn, end: Option<Lsn>, threads: usize) -> Result<Part, Error> {
    let size = u64::from(base.identity.segment_size);
    let mut pages = Pages::with_identity(Arc::clone(&base.segments), base.identity, base.highest_timeline, 0);
    let (opening, first_timeline) = opening(base, from, &mut pages)?;
    let limit = end.unwrap_or(Lsn(u64::MAX));
    let mut head_missing = None;
    let (head, next) = match opening {
        Opening::Record => (Head::Record, Some(from)),
        Opening::Overwrite => (Head::Overwrite, Some(from)),
        Opening::Unused => (Head::Unused, Some(from.align_down(size).advance(size))),
        Opening::Rest(remaining) => {
            let mut rest = Rest { remaining, ..Rest::default() };
            let mut take = |bytes: &[u8]| rest.add(bytes, OPENING);
            let (headers, stop) = follow(&mut pages, from, remaining, limit, &mut take)?;
            let (rest_end, next) = match stop {
                Stop::Whole(next) if may_be_switch(&rest) && is_unused(&mut pages, next) => {
                    (RestEnd::Switch(next), Some(next.align_down(size).advance(size)))
                }
                Stop::Whole(next) => (RestEnd::Whole, Some(next)),
                Stop::GivenUp(page) => (RestEnd::GivenUp(page), Some(page)),
                // The reader finds it again, and says whether the WAL ends there.
                Stop::Broken => (RestEnd::Broken, Some(from)),
                Stop::Cut(missing) => {
                    head_missing = missing;
                    (RestEnd::Cut, None)
                }
            };
            let head = if rest_end.is_lost() {
                let rest = Rest { remaining, ..Rest::default() };
                Head::Rest { rest, headers: Accounting::default(), end: rest_end }
            } else {
                Head::Rest { rest, headers, end: rest_end }
            };
            (head, next)
        }
    };

    let range = Range { start: None, end, timeline: Some(base.highest_timeline), allow_gaps: false };
    let (counted, finish) = match next.filter(|next| *next < limit) {
        Some(next) => {
            let position =
                Position { next, read: None, timeline: first_timeline, is_within: true, ..base.clone() };
            let (counted, finish) = parallel::read(position, range, threads);
            (Some(counted), finish?)
        }
        // The part lies within one record, or within what a switch left unused.
        None => (None, head_missing.map_or(Finish::Requested, |wanted| Finish::LastSegment { wanted })),
    };
    let span = counted.as_ref().and_then(|counted| counted.span);
    let reach = span.map(|span| Reach { first: span.first, last: span.last, end: span.end, prev: span.prev });
    let whole_to = reach.map(|reach| reach.end).or(next).unwrap_or(limit);
    let (to, end) = match finish {
        Finish::Requested => (limit, End::Requested),
        Finish::LastSegment { wanted } => {
            (wanted.start(base.identity.segment_size).unwrap_or(whole_to), End::LastSegment)
        }
        Finish::EndOfWal { reason } => (whole_to, End::OfWal(reason.to_string())),
    };
    let (mut lead, mut pending, mut tail) = (Accounting::default(), Accounting::default(), None);
    if let Some(next) = next {
        match reach {
            Some(reach) => {
                (lead, _) = between(&mut pages, next, reach.first)?;
                if !matches!(end, End::OfWal(_)) {
                    (pending, tail) = between(&mut pages, reach.end, to)?;
                }
            }
            None if matches!(end, End::OfWal(_)) => {}
            None => (pending, tail) = between(&mut pages, next, to)?,
        }
    }
    let timeline = counted.as_ref().map_or(0, |counted| counted.timeline);
    let (tally, accounting) =
        counted.map_or((Tally::default(), Accounting::default()), |stats| (stats.tally, stats.accounting));
    let at_hand = base.segments.names().map(|name| name.timeline).max().unwrap_or(1);
    Ok(Part {
        identity: base.identity,
        from,
        to,
        timelines: (first_timeline, timeline.max(first_timeline)),
        newest_timeline: at_hand.min(base.highest_timeline),
        head,
        lead,
        reach,
        accounting,
        tally,
        pending,
        tail,
        end,
    })
}

/// What stands at `from`, and on which timeline. Only the beginning of a segment tells it of itself; elsewhere, what
/// stands before it in the segment does.
fn opening(base: &Position, from: Lsn, pages: &mut Pages) -> Result<(Opening, u32), Error> {
    let start = from.align_down(u64::from(base.identity.segment_size));
    if from == start {
        let header = pages.check(from)?;
        let opening = match header.remaining {
            _ if header.first_is_overwrite_contrecord(base.identity.version) => Opening::Overwrite,
            remaining if header.first_is_contrecord() && remaining > 0 => Opening::Rest(remaining),
            _ => Opening::Record,
        };
        return Ok((opening, header.timeline));
    }
    let before = within(base, start, Some(from), 1)?;
    let opening = match (&before.tail, &before.head) {
        (Some(tail), _) => Opening::Rest(tail.begun.missing()),
        (None, Head::Rest { rest, end: RestEnd::Cut, .. }) => Opening::Rest(rest.missing()),
        _ if before.unused_to().is_some() => Opening::Unused,
        _ => Opening::Record,
    };
    Ok((opening, before.timelines.1))
}

/// Why the bytes of a record end.
enum Stop {
    /// All are there; where the next record may begin.
    Whole(Lsn),
    /// At the end of the part. The segment that would come next, if that is not at hand.
    Cut(Option<SegmentName>),
    /// A page says that the record before it was given up.
    GivenUp(Lsn),
    /// A page that does not go on with it.
    Broken,
}

/// Takes the `missing` bytes of a record that stand from `from` on, as far as `limit`; with the headers between them.
fn follow(
    pages: &mut Pages,
    from: Lsn,
    missing: u32,
    limit: Lsn,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(Accounting, Stop), Error> {
    let version = pages.identity().version;
    let (mut at, mut missing, mut headers) = (from, missing, Accounting::default());
    loop {
        if at >= limit {
            return Ok((headers, Stop::Cut(None)));
        }
        let page = at.align_down(PAGE);
        let header = match pages.check(page) {
            Ok(header) => header,
            Err(Error::MissingSegment { segment, next: None, .. }) if limit == Lsn(u64::MAX) => {
                return Ok((headers, Stop::Cut(Some(segment))));
            }
            Err(Error::Invalid { .. }) => return Ok((headers, Stop::Broken)),
            Err(error) => return Err(error),
        };
        let begin = page.advance(u64::from(header.size()));
        if at == page {
            if header.first_is_overwrite_contrecord(version) {
                return Ok((headers, Stop::GivenUp(page)));
            }
            if !header.first_is_contrecord() || header.remaining != missing {
                return Ok((headers, Stop::Broken));
            }
            headers.add_page_header(header.size());
        }
        // An edge may stand within the header, which belongs to the part where it begins.
        at = at.max(begin);
        let room = (page.advance(PAGE).min(limit) - at).min(u64::from(missing));
        let bytes = pages.bytes(at, usize::try_from(room).unwrap_or_default()).unwrap_or_default();
        take(bytes);
        at = at.advance(bytes.len() as u64);
        missing -= u32::try_from(bytes.len()).unwrap_or(missing);
        if missing == 0 {
            return Ok((headers, Stop::Whole(at.align_up(ALIGNMENT))));
        }
    }
}

/// What stands between the end of a record and `to`, where no whole record is: headers, records that were given up, and
/// at the end the beginning of one that goes on.
fn between(pages: &mut Pages, from: Lsn, to: Lsn) -> Result<(Accounting, Option<Tail>), Error> {
    let (mut at, mut found) = (from, Accounting::default());
    while at < to {
        let page = at.align_down(PAGE);
        let header = pages.check(page)?;
        if at == page {
            found.add_page_header(header.size());
        }
        let lsn = at.max(page.advance(u64::from(header.size())));
        if lsn >= to {
            break;
        }
        let length = pages.bytes(lsn, 4).and_then(|bytes| bytes.first_chunk::<4>().copied());
        let got = length.map_or(0, u32::from_le_bytes);
        let invalid = |what| Error::Invalid { what, segment: pages.segment_of(lsn), previous: None };
        if (got as usize) < HEADER_SIZE {
            return Err(invalid(Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got }));
        }
        let mut begun = Begun::at(lsn);
        let (headers, stop) = follow(pages, lsn, got, to, &mut |bytes| begun.add(bytes, OPENING))?;
        match stop {
            Stop::Cut(_) => return Ok((found, Some(Tail { begun, headers }))),
            Stop::GivenUp(page) => {
                found.overwritten_bytes += page - lsn;
                at = page;
            }
            Stop::Whole(_) | Stop::Broken => {
                let segment = pages.segment_of(lsn);
                return Err(Error::Invalid { what: Invalid::NoContrecord { lsn }, segment, previous: None });
            }
        }
    }
    Ok((found, None))
}

/// Whether what is left of a record may be that of a switch: a header, with nothing after it.
fn may_be_switch(rest: &Rest) -> bool {
    let place = (rest.remaining as usize).checked_sub(8);
    let operation = place.filter(|_| rest.remaining <= 16).and_then(|at| rest.first.get(at..at + 2));
    matches!(operation, Some([info, rmgr]) if info & 0xF0 == XLOG_SWITCH && *rmgr == RmgrId::XLOG.0)
}

/// Whether no record begins at `at`, which is not the end of a segment: a switch leaves zeros.
fn is_unused(pages: &mut Pages, at: Lsn) -> bool {
    if at.offset_in(u64::from(pages.identity().segment_size)) == 0 {
        return false;
    }
    let page = at.align_down(PAGE);
    match pages.check(page) {
        Ok(header) => {
            let lsn = at.max(page.advance(u64::from(header.size())));
            pages.bytes(lsn, 4).is_some_and(|length| length == [0; 4])
        }
        Err(error) => matches!(error, Error::Invalid { .. }),
    }
}
