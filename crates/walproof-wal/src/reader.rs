//! Pages to records: finds the first one, follows the chain, and says where and why it ends.
//!
//! The order of the checks is that of `XLogDecodeNextRecord` and `XLogFindNextRecord`
//! (src/backend/access/transam/xlogreader.c), so that both stop at the same place with the same words.

use std::sync::Arc;

use crate::accounting::Accounting;
use crate::block::{self, BlockRefs, Fragments};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PAGE_SIZE};
use crate::pages::{Pages, WalIdentity};
use crate::record::{checksum, Record, RecordHeader, ALIGNMENT, HEADER_SIZE, MAX_LENGTH};
use crate::rmgr::RmgrId;
use crate::source::Segments;
use crate::version::PgVersion;

const PAGE: u64 = PAGE_SIZE as u64;
const XLOG_SWITCH: u8 = 0x40;

/// Which part of the WAL to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Records that begin here or later; from the first segment at hand when None.
    pub start: Option<Lsn>,
    /// Records that end here or earlier, padding apart; to the end of the WAL when None.
    pub end: Option<Lsn>,
    /// Newest timeline to read; the highest at hand when None.
    pub timeline: Option<u32>,
    /// Whether to go on after segments that are missing; [`Reader::gaps`] tells which WAL was not seen.
    pub allow_gaps: bool,
}

/// WAL that is missing between two segments at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where the last record before it ends.
    pub start: Lsn,
    /// Where the first record after it begins.
    pub end: Lsn,
}

/// Why there are no more records.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finish {
    /// The end that was asked for.
    Requested,
    /// The last segment at hand was read to its end.
    LastSegment {
        /// The segment that would come next.
        wanted: SegmentName,
    },
    /// What comes next is not a record, and no later segment shows that there should be one: the end of the
    /// WAL of a running or stopped server looks like this.
    EndOfWal {
        /// What pg_waldump would report there.
        reason: Error,
    },
}

impl Finish {
    /// The reason in words; None for the end that was asked for.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Finish::Requested => None,
            Finish::LastSegment { wanted } => Some(format!("{wanted} is not at hand")),
            Finish::EndOfWal { reason } => Some(reason.to_string()),
        }
    }
}

/// Records in order. Memory use does not depend on the amount of WAL: one buffer, and the record in hand.
///
/// See the [crate documentation](crate) for an example.
#[derive(Debug)]
pub struct Reader {
    pages: Pages,
    start: Lsn,
    end: Option<Lsn>,
    allow_gaps: bool,
    /// Records that begin here or later are not read; and whether one was found there.
    stop: Lsn,
    is_stopped: bool,
    /// Whether WAL is known to stand before the start: then what is not a record there may be the end of the
    /// WAL.
    is_within: bool,
    gaps: Vec<Gap>,
    /// Where the gap that was just passed over begins, until the first record after it.
    gap_start: Option<Lsn>,
    /// First record returned.
    first: Option<Lsn>,
    /// Where the next record begins, or the page boundary before it; None until the first was looked for.
    next: Option<Lsn>,
    /// The record before `next`, if it was read.
    previous: Option<Lsn>,
    accounting: Accounting,
    /// Records that were given up in a crash and passed over: where each begins, and the page that goes on.
    given_up: Vec<(Lsn, Lsn)>,
    finish: Option<Finish>,
    /// The parts of the record in hand.
    blocks: BlockRefs,
    fragments: Fragments,
    /// A record that crosses pages, put together.
    assembled: Vec<u8>,
}

/// A record that is in order, before it is shown.
struct Found {
    lsn: Lsn,
    end: Lsn,
    header: RecordHeader,
    is_assembled: bool,
}

/// What one reader hands to another that goes on where it stopped.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) segments: Arc<Segments>,
    pub(crate) identity: WalIdentity,
    pub(crate) highest_timeline: u32,
    /// Timeline of the WAL before; 0 when nothing was read.
    pub(crate) timeline: u32,
    /// The file that the WAL before was read from.
    pub(crate) file: Option<SegmentName>,
    /// Where to go on: the end of a record, or any place when nothing was read.
    pub(crate) next: Lsn,
    /// First record and last record that were read.
    pub(crate) read: Option<(Lsn, Lsn)>,
    /// Where the range starts, and the last record before it, as long as none was read in the range.
    pub(crate) passed: Option<(Lsn, Lsn)>,
    /// Whether WAL is known to stand before `next`, though nothing was read.
    pub(crate) is_within: bool,
}

impl Reader {
    /// Prepares to read; looks at one page only.
    ///
    /// # Errors
    /// [`Error::EmptyRange`] when the range ends before it starts; [`Error::MissingSegment`] when no segment
    /// holds its start; [`Error::Invalid`] when that segment's first page is not one of PostgreSQL 13 to 19.
    pub fn open(segments: impl Into<Arc<Segments>>, range: Range) -> Result<Reader, Error> {
        if let (Some(start), Some(end)) = (range.start, range.end) {
            if start > end {
                return Err(Error::EmptyRange { start, end });
            }
        }
        let (pages, start) = Pages::open(segments.into(), range.start, range.timeline)?;
        Ok(Reader::new(pages, start, range))
    }

    fn new(pages: Pages, start: Lsn, range: Range) -> Reader {
        Reader {
            pages,
            start,
            end: range.end,
            allow_gaps: range.allow_gaps,
            stop: Lsn(u64::MAX),
            is_stopped: false,
            is_within: false,
            gaps: Vec::new(),
            gap_start: None,
            first: None,
            next: None,
            previous: None,
            accounting: Accounting::default(),
            given_up: Vec::new(),
            finish: None,
            blocks: BlockRefs::new(),
            fragments: Fragments::default(),
            assembled: Vec::new(),
        }
    }

    /// Tells the segments' [`Watch`](crate::Watch) that a pass begins, and over how many bytes, which it
    /// reads so many times.
    pub fn announce(&self, times: u64) {
        let (segments, until) = (self.pages.segments(), self.end.unwrap_or(Lsn(u64::MAX)));
        let bytes = segments.bytes_between(self.start, until, self.identity().segment_size);
        segments.watch().begin(bytes * times);
    }

    /// Goes on where another reader stopped, and reads the records that begin before `stop`.
    pub(crate) fn resume(from: &Position, stop: Lsn, range: Range) -> Reader {
        let segments = Arc::clone(&from.segments);
        let mut pages = Pages::with_identity(segments, from.identity, from.highest_timeline, from.timeline);
        pages.resume_at(from.next, from.file);
        let mut reader = Reader::new(pages, from.next, range);
        reader.stop = stop;
        reader.is_within = from.is_within;
        if let Some((first, last)) = from.read {
            reader.start = first;
            reader.first = Some(first);
            reader.next = Some(from.next);
            reader.previous = Some(last);
        } else if let Some((start, last)) = from.passed {
            reader.start = start;
            reader.next = Some(from.next);
            reader.previous = Some(last);
        }
        reader
    }

    /// Where another reader can go on.
    pub(crate) fn position(&self) -> Position {
        Position {
            segments: Arc::clone(self.pages.segments()),
            identity: self.identity(),
            highest_timeline: self.pages.highest_timeline(),
            timeline: self.timeline(),
            file: self.file(),
            next: self.end_lsn(),
            read: self.first.zip(self.previous),
            passed: None,
            is_within: self.is_within,
        }
    }

    /// Whether reading ended because the next record begins at the stop or after it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Version, cluster and segment size of the WAL.
    #[must_use]
    pub fn identity(&self) -> WalIdentity {
        self.pages.identity()
    }

    /// Timeline of the last page read.
    #[must_use]
    pub fn timeline(&self) -> u32 {
        self.pages.timeline()
    }

    /// The file that the last page was read from.
    pub(crate) fn file(&self) -> Option<SegmentName> {
        self.pages.file()
    }

    /// Where the last record before the range's start begins and ends, as long as none was read in the range.
    pub(crate) fn passed(&self) -> Option<(Lsn, Lsn)> {
        if self.first.is_some() {
            return None;
        }
        self.previous.zip(self.next)
    }

    /// Where the first record returned begins; where reading was to begin as long as there was none.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        self.first.unwrap_or(self.start)
    }

    /// Where the last record returned ends, padding included.
    #[must_use]
    pub fn end_lsn(&self) -> Lsn {
        self.gap_start.unwrap_or_else(|| self.place())
    }

    /// Where the next record is looked for, which may be after a gap.
    fn place(&self) -> Lsn {
        match (self.first, self.next) {
            (Some(_), Some(next)) => next,
            _ => self.start,
        }
    }

    /// What fills the bytes between [`Reader::first_lsn`] and [`Reader::end_lsn`].
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Records that a crash cut off and that were passed over, since this was last asked: where each begins, and the page
    /// on which WAL goes on.
    pub(crate) fn take_given_up(&mut self) -> Vec<(Lsn, Lsn)> {
        std::mem::take(&mut self.given_up)
    }

    /// WAL that was missing and passed over, in order; empty unless the range allows gaps.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Why [`Reader::next_record`] returned None.
    #[must_use]
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// Ends reading; returns why it ended, or [`Finish::Requested`] if it had not come to an end.
    #[must_use]
    pub fn into_finish(self) -> Finish {
        self.finish.unwrap_or(Finish::Requested)
    }

    /// The next record; None at the end, whose reason is in [`Reader::finish`].
    ///
    /// Without an end in the range, the first thing that is no record ends the WAL, unless a later segment
    /// proves that there is more.
    ///
    /// # Errors
    /// [`Error::NoRecord`] when the start leads to no record, [`Error::MissingSegment`] and
    /// [`Error::Invalid`] when WAL that should be there is not, [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.finish.is_some() {
            return Ok(None);
        }
        if self.first.is_some() {
            if let Some(found) = self.within_page() {
                return Ok(Some(self.record(&found)));
            }
        }
        let found = match self.find() {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.finish = Some(Finish::Requested);
                return Ok(None);
            }
            Err(error) => {
                self.finish = Some(self.judge(error)?);
                return Ok(None);
            }
        };
        self.first.get_or_insert(found.lsn);
        Ok(Some(self.record(&found)))
    }

    #[inline(always)]
    fn record(&self, found: &Found) -> Record<'_> {
        let length = found.header.total_length as usize;
        let bytes = if found.is_assembled {
            self.assembled.as_slice()
        } else {
            self.pages.bytes(found.lsn, length).unwrap_or_default()
        };
        Record {
            lsn: found.lsn,
            end: found.end,
            header: found.header,
            version: self.pages.identity().version,
            origin: self.fragments.origin,
            toplevel_xid: self.fragments.toplevel_xid,
            blocks: self.blocks.as_slice(),
            main_data: bytes.get(self.fragments.main_data.clone()).unwrap_or_default(),
            bytes,
        }
    }

    /// Whether an obstacle is the end of the WAL or an error.
    fn judge(&self, error: Error) -> Result<Finish, Error> {
        if !matches!(error, Error::Invalid { .. } | Error::MissingSegment { .. }) {
            return Err(error);
        }
        if self.first.is_none() && !self.is_within {
            return Err(Error::NoRecord { start: self.start, source: Box::new(error) });
        }
        if self.end.is_some() {
            return Err(error);
        }
        match error {
            Error::MissingSegment { segment, next: None, .. } => Ok(Finish::LastSegment { wanted: segment }),
            Error::Invalid { ref what, .. } if what.is_foreign() => Err(error),
            Error::Invalid { .. } if self.pages.continues_after(self.place()).is_none() => {
                Ok(Finish::EndOfWal { reason: error })
            }
            error => Err(error),
        }
    }

    /// The next record at or after the start; None when it would end after the requested end.
    fn find(&mut self) -> Result<Option<Found>, Error> {
        if self.next.is_none() {
            match self.first_position(self.start.align_down(PAGE))? {
                Some(position) => self.next = Some(position),
                None => return Ok(None),
            }
        }
        loop {
            match self.advance() {
                Ok(Some(found)) if found.lsn < self.start => self.accounting = Accounting::default(),
                Err(Error::MissingSegment { next: Some(next), .. })
                    if self.allow_gaps && self.first.is_some() =>
                {
                    self.pass_gap(next)?;
                }
                other => return other,
            }
        }
    }

    /// Goes to the first record of `segment`, the next one at hand.
    fn pass_gap(&mut self, segment: SegmentName) -> Result<(), Error> {
        let end = self.end_lsn();
        let page = segment.start(self.identity().segment_size).unwrap_or(end);
        self.gap_start.get_or_insert(end);
        self.previous = None;
        // Where no record begins in the range any more, the next attempt finds itself past its end.
        self.next = Some(self.first_position(page)?.unwrap_or(page));
        Ok(())
    }

    /// The first place on `page` or after it where a record begins: not in the rest of one from before.
    fn first_position(&mut self, mut page: Lsn) -> Result<Option<Lsn>, Error> {
        loop {
            if self.end.is_some_and(|end| page >= end) {
                return Ok(None);
            }
            if page >= self.stop && self.gap_start.is_none() {
                self.is_stopped = true;
                return Ok(None);
            }
            let header = self.pages.check(page)?;
            let size = u64::from(header.size());
            if !header.first_is_contrecord() {
                return Ok(Some(page.advance(size)));
            }
            let rest = Lsn(u64::from(header.remaining)).align_up(ALIGNMENT).0;
            if rest < PAGE - size {
                return Ok(Some(page.advance(size + rest)));
            }
            page = page.advance(PAGE);
        }
    }

    /// Reads the record at `self.next` and moves past it.
    fn advance(&mut self) -> Result<Option<Found>, Error> {
        let mut at = self.next.unwrap_or(self.start);
        // What lies between the end of the record before and this one.
        let mut lead = Accounting::default();
        loop {
            let attempt = match self.record_at(at, &mut lead) {
                Ok(attempt) => attempt,
                Err(Error::Invalid { what, segment, .. }) => {
                    return Err(Error::Invalid { what, segment, previous: self.previous });
                }
                Err(error) => return Err(error),
            };
            match attempt {
                Attempt::PastEnd => return Ok(None),
                Attempt::AtStop => {
                    self.is_stopped = true;
                    return Ok(None);
                }
                Attempt::Overwritten { lsn, page } => {
                    self.given_up.push((lsn, page));
                    at = page;
                }
                Attempt::Found(found, body) => {
                    match self.gap_start.take() {
                        Some(start) => self.gaps.push(Gap { start, end: found.lsn }),
                        None if self.first.is_some() => self.accounting += lead,
                        None => {}
                    }
                    if body.switch_bytes > 0 {
                        self.pages.pass_over(found.end);
                    }
                    self.accounting += body;
                    self.previous = Some(found.lsn);
                    self.next = Some(found.end);
                    return Ok(Some(found));
                }
            }
        }
    }

    /// The usual case, quickly: the next record lies within the page in hand and nothing is wrong with it.
    /// Whatever else there may be is for [`Reader::record_at`] to find and to name.
    #[inline(always)]
    fn within_page(&mut self) -> Option<Found> {
        let (lsn, previous) = (self.next?, self.previous?);
        let rest = self.pages.rest_of_page(lsn)?;
        let header = RecordHeader::parse(rest)?;
        let bytes = rest.get(..header.total_length as usize)?;
        let end = lsn.advance(bytes.len() as u64);
        let version = self.pages.identity().version;
        let is_usual = header.prev == previous
            && lsn < self.stop
            && self.end.is_none_or(|limit| end <= limit)
            && header.rmgr.is_valid(version)
            && !is_switch(header)
            && checksum(bytes) == Some(header.crc);
        if !is_usual {
            return None;
        }
        block::decode(bytes, lsn, version, &mut self.blocks, &mut self.fragments).ok()?;
        let next = end.align_up(ALIGNMENT);
        self.accounting.record_bytes += u64::from(header.total_length);
        self.accounting.padding_bytes += next - end;
        self.previous = Some(lsn);
        self.next = Some(next);
        Some(Found { lsn, end: next, header, is_assembled: false })
    }

    /// Reads the record at `at`, or after the header of the page that begins there.
    fn record_at(&mut self, at: Lsn, lead: &mut Accounting) -> Result<Attempt, Error> {
        let segment_size = self.identity().segment_size;
        let page = at.align_down(PAGE);
        let is_page_start = at == page;
        let expected_lsn =
            if is_page_start { page.advance(u64::from(header_size_at(page, segment_size))) } else { at };
        if self.is_past_end(expected_lsn.advance(HEADER_SIZE as u64)) {
            return Ok(Attempt::PastEnd);
        }
        // What was overwritten or missing before a record is only known to who came along that way.
        if expected_lsn >= self.stop && lead.overwritten_bytes == 0 && self.gap_start.is_none() {
            return Ok(Attempt::AtStop);
        }
        let page_header = self.pages.check(page)?;
        let header_size = page_header.size();
        let lsn = if is_page_start { page.advance(u64::from(header_size)) } else { at };
        let offset = lsn.offset_in(PAGE);
        if offset < u64::from(header_size) {
            let got = u32::try_from(offset).unwrap_or(u32::MAX);
            return Err(self.invalid(Invalid::RecordOffset { lsn, expected: header_size, got }));
        }
        if page_header.first_is_contrecord() && offset == u64::from(header_size) {
            return Err(self.invalid(Invalid::ContrecordRequested { lsn }));
        }
        if is_page_start {
            lead.add_page_header(header_size);
        }

        let room = usize::try_from(PAGE - offset).unwrap_or_default();
        let head = self.pages.bytes(lsn, room).unwrap_or_default();
        // Records begin at multiples of 8, so their length always stands on the page where they begin.
        let total_length = head.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let header = RecordHeader::parse(head);
        if let Some(header) = header {
            self.validate(header, lsn)?;
        } else if (total_length as usize) < HEADER_SIZE {
            return Err(self.too_short(lsn, total_length));
        }
        if let (Some(header), Some(bytes)) = (header, head.get(..total_length as usize)) {
            let end = lsn.advance(u64::from(total_length));
            if self.is_past_end(end) {
                return Ok(Attempt::PastEnd);
            }
            finish(bytes, header, lsn, self.identity().version, &mut self.blocks, &mut self.fragments)
                .map_err(|what| self.invalid(what))?;
            return Ok(self.found(lsn, end.align_up(ALIGNMENT), header, false));
        }
        self.assemble(lsn, total_length, header, lead)
    }

    /// Puts together a record that continues after its first page.
    fn assemble(
        &mut self,
        lsn: Lsn,
        total_length: u32,
        mut header: Option<RecordHeader>,
        lead: &mut Accounting,
    ) -> Result<Attempt, Error> {
        let segment_size = self.identity().segment_size;
        let mut page = lsn.align_down(PAGE);
        let room = usize::try_from(PAGE - lsn.offset_in(PAGE)).unwrap_or_default();
        let mut headers = Accounting::default();
        self.assembled.clear();
        self.assembled.extend_from_slice(self.pages.bytes(lsn, room).unwrap_or_default());
        loop {
            page = page.advance(PAGE);
            // What the pages hold is believed before a length is: memory grows only by bytes that are there.
            let missing =
                total_length.saturating_sub(u32::try_from(self.assembled.len()).unwrap_or(u32::MAX));
            if self.is_past_end(page.advance(u64::from(header_size_at(page, segment_size)))) {
                return Ok(Attempt::PastEnd);
            }
            let page_header = self.pages.check(page)?;
            if page_header.first_is_overwrite_contrecord(self.identity().version) {
                lead.overwritten_bytes += page - lsn;
                return Ok(Attempt::Overwritten { lsn, page });
            }
            if !page_header.first_is_contrecord() {
                return Err(self.invalid(Invalid::NoContrecord { lsn }));
            }
            if page_header.remaining == 0 || page_header.remaining != missing {
                let (got, expected) = (page_header.remaining, missing);
                return Err(self.invalid(Invalid::ContrecordLength { lsn, got, expected }));
            }
            let size = page_header.size();
            let piece = missing.min(PAGE_SIZE - size);
            if self.is_past_end(page.advance(u64::from(size + piece))) {
                return Ok(Attempt::PastEnd);
            }
            headers.add_page_header(size);
            let bytes = self.pages.bytes(page.advance(u64::from(size)), piece as usize).unwrap_or_default();
            self.assembled.extend_from_slice(bytes);
            if header.is_none() {
                header = RecordHeader::parse(&self.assembled);
                if let Some(header) = header {
                    self.validate(header, lsn)?;
                }
            }
            if piece == missing {
                let end = page.advance(u64::from(size) + u64::from(piece)).align_up(ALIGNMENT);
                let Some(header) = header else {
                    return Err(self.too_short(lsn, total_length));
                };
                let version = self.identity().version;
                finish(&self.assembled, header, lsn, version, &mut self.blocks, &mut self.fragments)
                    .map_err(|what| self.invalid(what))?;
                let mut attempt = self.found(lsn, end, header, true);
                if let Attempt::Found(_, body) = &mut attempt {
                    *body += headers;
                }
                return Ok(attempt);
            }
        }
    }

    /// A record in order, with what it takes up apart from page headers.
    fn found(&self, lsn: Lsn, end: Lsn, header: RecordHeader, is_assembled: bool) -> Attempt {
        let length = u64::from(header.total_length);
        let mut body = Accounting { record_bytes: length, ..Accounting::default() };
        body.padding_bytes = Lsn(length).align_up(ALIGNMENT).0 - length;
        let mut next = end;
        if is_switch(header) {
            // The rest of the segment is unused; what stands there is not looked at.
            next = end.align_up(u64::from(self.identity().segment_size));
            body.switch_bytes = next - end;
        }
        Attempt::Found(Found { lsn, end: next, header, is_assembled }, body)
    }

    fn validate(&self, header: RecordHeader, lsn: Lsn) -> Result<(), Error> {
        validate(header, lsn, self.previous, self.identity().version).map_err(|what| self.invalid(what))
    }

    fn is_past_end(&self, lsn: Lsn) -> bool {
        self.end.is_some_and(|end| lsn > end)
    }

    fn too_short(&self, lsn: Lsn, got: u32) -> Error {
        self.invalid(too_short(lsn, got))
    }

    fn invalid(&self, what: Invalid) -> Error {
        let segment = self.pages.segment_of(what.lsn().unwrap_or(self.place()));
        Error::Invalid { what, segment, previous: self.previous }
    }
}

/// The outcome of reading at one place.
enum Attempt {
    Found(Found, Accounting),
    /// The record was given up by a server that crashed; the WAL goes on at `page`.
    Overwritten {
        lsn: Lsn,
        page: Lsn,
    },
    PastEnd,
    AtStop,
}

pub(crate) fn is_switch(header: RecordHeader) -> bool {
    header.rmgr == RmgrId::XLOG && header.info & 0xF0 == XLOG_SWITCH
}

/// The checks of `ValidXLogRecordHeader`; `previous` is the record before, if it was read.
pub(crate) fn validate(
    header: RecordHeader,
    lsn: Lsn,
    previous: Option<Lsn>,
    version: PgVersion,
) -> Result<(), Invalid> {
    if (header.total_length as usize) < HEADER_SIZE {
        return Err(too_short(lsn, header.total_length));
    }
    if !header.rmgr.is_valid(version) {
        return Err(Invalid::ResourceManager { lsn, got: header.rmgr.0 });
    }
    let is_linked = match previous {
        Some(previous) => header.prev == previous,
        // Nothing was read before: the link can only be known to point backwards.
        None => header.prev < lsn,
    };
    if !is_linked {
        return Err(Invalid::PrevLink { lsn, got: header.prev });
    }
    if header.total_length > MAX_LENGTH {
        return Err(Invalid::RecordTooLong { lsn, got: header.total_length });
    }
    Ok(())
}

pub(crate) fn too_short(lsn: Lsn, got: u32) -> Invalid {
    Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got }
}

/// Checks a whole record's checksum, then takes it apart.
#[inline]
pub(crate) fn finish(
    bytes: &[u8],
    header: RecordHeader,
    lsn: Lsn,
    version: PgVersion,
    blocks: &mut BlockRefs,
    fragments: &mut Fragments,
) -> Result<(), Invalid> {
    if checksum(bytes) != Some(header.crc) {
        return Err(Invalid::Checksum { lsn });
    }
    block::decode(bytes, lsn, version, blocks, fragments)
}
