//! Finds records in WAL that arrives: bytes in order, in pieces of any size, from any location on.
//!
//! The checks are those of [`Reader`](crate::Reader), in the same words, and so are the ends of records. A
//! record is shown when its last byte has come; the padding after it need not have. Only what was not shown
//! yet is kept: less than a page and the piece in hand, and the part of a record that continues on later
//! pages.

use crate::block::{BlockRefs, Fragments};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PageHeader, PAGE_SIZE};
use crate::pages::{self, WalIdentity};
use crate::reader::{self, is_switch, Gap};
use crate::record::{Record, RecordHeader, ALIGNMENT, HEADER_SIZE};
use crate::version::PgVersion;

const PAGE: u64 = PAGE_SIZE as u64;

/// WAL of one server, as it arrives.
#[derive(Debug)]
pub struct Feed {
    segment_size: u32,
    /// None until the first page has come, and the first page of a segment.
    version: Option<PgVersion>,
    system_identifier: Option<u64>,
    timeline: u32,
    /// What has come and is still needed; its first byte is at `base`.
    buffer: Vec<u8>,
    base: Lsn,
    /// Where what has come ends; None before the first bytes, also after a restart.
    received: Option<Lsn>,
    /// Where the next record begins, or the page before it.
    next: Place,
    /// The record before `next`, if it was read.
    previous: Option<Lsn>,
    /// The first record of all, and where the last one ends.
    first: Option<Lsn>,
    end: Option<Lsn>,
    /// The end of the last record before a restart, until the first record after it.
    gap_start: Option<Lsn>,
    gaps: Vec<Gap>,
    /// A record that continues on later pages, and its bytes so far.
    partial: Option<Partial>,
    assembled: Vec<u8>,
    broken: Option<(Invalid, SegmentName, Option<Lsn>)>,
    blocks: BlockRefs,
    fragments: Fragments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A record may begin on this page: looked for after a start in the middle.
    Page(Lsn),
    /// A record begins here, or after the header of the page that does.
    Record(Lsn),
}

#[derive(Clone, Copy, Debug)]
struct Partial {
    lsn: Lsn,
    length: u32,
    header: Option<RecordHeader>,
    /// The page on which it continues.
    page: Lsn,
}

/// Whether to go on with what has come.
enum Step {
    On,
    Wait,
}

impl Feed {
    /// Of a server with segments of that size, in bytes: a power of two from 1 MB to 1 GB.
    #[must_use]
    pub fn new(segment_size: u32) -> Feed {
        Feed {
            segment_size,
            version: None,
            system_identifier: None,
            timeline: 0,
            buffer: Vec::new(),
            base: Lsn(0),
            received: None,
            next: Place::Page(Lsn(0)),
            previous: None,
            first: None,
            end: None,
            gap_start: None,
            gaps: Vec::new(),
            partial: None,
            assembled: Vec::new(),
            broken: None,
            blocks: BlockRefs::new(),
            fragments: Fragments::default(),
        }
    }

    /// The version that wrote it; None until the first page has come.
    #[must_use]
    pub fn version(&self) -> Option<PgVersion> {
        self.version
    }

    /// As in `pg_controldata`; None until the first page of a segment has come.
    #[must_use]
    pub fn system_identifier(&self) -> Option<u64> {
        self.system_identifier
    }

    /// Timeline of the last page; 0 until the first has come.
    #[must_use]
    pub fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Where what has come ends; None before the first bytes, and after a restart.
    #[must_use]
    pub fn received(&self) -> Option<Lsn> {
        self.received
    }

    /// Where the first record begins.
    #[must_use]
    pub fn first_lsn(&self) -> Option<Lsn> {
        self.first
    }

    /// Where the last record ends, padding included.
    #[must_use]
    pub fn end_lsn(&self) -> Option<Lsn> {
        self.end
    }

    /// WAL that was not seen, because of restarts.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Lets what comes next begin anywhere.
    pub fn restart(&mut self) {
        self.buffer.clear();
        self.received = None;
        self.previous = None;
        self.partial = None;
        self.broken = None;
        self.timeline = 0;
        self.gap_start = self.gap_start.or(self.end);
    }

    /// Notes that the WAL goes on at `lsn` on a newer timeline; returns whether what was shown stays as it
    /// is. If not, records after `lsn` had already been shown, and this is a restart.
    ///
    /// # Errors
    /// [`Error::OldTimeline`].
    pub fn switch_timeline(&mut self, timeline: u32, lsn: Lsn) -> Result<bool, Error> {
        if timeline <= self.timeline {
            return Err(Error::OldTimeline { got: timeline, latest: self.timeline });
        }
        let goes_on = match (self.next, self.received) {
            (Place::Record(next), Some(received)) => {
                next <= lsn && lsn <= received && self.partial.is_none_or(|partial| lsn <= partial.lsn)
            }
            _ => false,
        };
        if !goes_on {
            self.restart();
        } else if let Place::Record(next) = self.next {
            self.partial = None;
            self.broken = None;
            let kept = (lsn.0.saturating_sub(self.base.0) as usize).min(self.buffer.len());
            self.buffer.truncate(kept);
            if self.buffer.is_empty() {
                self.base = next;
            }
            self.received = Some(lsn);
        }
        self.timeline = timeline;
        Ok(goes_on)
    }

    /// Takes bytes from `lsn` on, and shows each record that is complete by now. What came before is passed over.
    ///
    /// # Errors
    /// [`Error::Hole`], and nothing is taken; [`Error::Invalid`] where no page or record is, again and again until a restart.
    pub fn push(&mut self, lsn: Lsn, bytes: &[u8], show: &mut impl FnMut(&Record<'_>)) -> Result<(), Error> {
        if let Some((what, segment, previous)) = &self.broken {
            return Err(Error::Invalid { what: what.clone(), segment: *segment, previous: *previous });
        }
        let expected = *self.received.get_or_insert_with(|| {
            self.next = Place::Page(lsn.align_up(PAGE));
            self.base = lsn.align_up(PAGE);
            lsn
        });
        if lsn > expected {
            return Err(Error::Hole { expected, got: lsn });
        }
        let seen = usize::try_from(expected - lsn).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(seen..).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        self.received = Some(expected.advance(bytes.len() as u64));
        // What lies before `base` is not looked at: the rest of a page, of a record, or of a segment after a switch.
        let unneeded = if self.buffer.is_empty() { self.base.0.saturating_sub(expected.0) } else { 0 };
        self.buffer.extend_from_slice(bytes.get(unneeded as usize..).unwrap_or_default());
        let shown = loop {
            match self.step(show) {
                Ok(Step::On) => {}
                Ok(Step::Wait) => break Ok(()),
                Err(what) => break Err(what),
            }
        };
        let from = match (&self.partial, self.next) {
            (Some(partial), _) => partial.page,
            (None, Place::Page(at) | Place::Record(at)) => at,
        };
        self.drop_before(from);
        shown.map_err(|what| {
            let segment =
                SegmentName::holding(what.lsn().unwrap_or(self.base), self.timeline, self.segment_size);
            self.broken = Some((what.clone(), segment, self.previous));
            Error::Invalid { what, segment, previous: self.previous }
        })
    }

    /// Of a page that was checked.
    fn known(&self) -> PgVersion {
        self.version.unwrap_or(PgVersion::V13)
    }

    fn drop_before(&mut self, lsn: Lsn) {
        let count = (lsn.0.saturating_sub(self.base.0) as usize).min(self.buffer.len());
        self.buffer.drain(..count);
        self.base = self.base.max(lsn);
    }

    /// Bytes from `lsn` on, if so many have come.
    #[inline]
    fn bytes(&self, lsn: Lsn, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(lsn.0.checked_sub(self.base.0)?).ok()?;
        self.buffer.get(from..from.checked_add(length)?)
    }

    fn step(&mut self, show: &mut impl FnMut(&Record<'_>)) -> Result<Step, Invalid> {
        match (self.partial, self.next) {
            (Some(partial), _) => self.go_on(partial, show),
            (None, Place::Page(page)) => self.find(page),
            (None, Place::Record(at)) => self.record_at(at, show),
        }
    }

    /// The header of the page at `page`, checked; None until it has come.
    fn check(&mut self, page: Lsn) -> Result<Option<PageHeader>, Invalid> {
        let size = header_size_at(page, self.segment_size) as usize;
        let Some(bytes) = self.bytes(page, size) else { return Ok(None) };
        let segment = SegmentName::holding(page, self.timeline, self.segment_size);
        let offset = page.offset_in(u64::from(self.segment_size)) as u32;
        let short = |got| Invalid::ShortRead { segment, offset, got, expected: size };
        let header = match PageHeader::parse(bytes) {
            Some(header) => header,
            // Only a segment's first page has a long header, which is longer than what was looked at.
            None => return Err(short(bytes.len())),
        };
        let known = self.version.or_else(|| PgVersion::from_magic(header.magic));
        let wrong = Invalid::Magic { got: header.magic, segment, lsn: page, offset };
        let version = known.ok_or(wrong)?;
        let told = header.long.map(|long| long.system_identifier);
        let system_identifier = self.system_identifier.or(told).unwrap_or(0);
        let identity = WalIdentity { version, system_identifier, segment_size: self.segment_size };
        pages::validate(header, page, segment, identity, self.timeline)?;
        self.version = Some(version);
        self.system_identifier = self.system_identifier.or(told);
        self.timeline = header.timeline;
        Ok(Some(header))
    }

    /// The first place on `page` or after it where a record begins.
    fn find(&mut self, page: Lsn) -> Result<Step, Invalid> {
        let Some(header) = self.check(page)? else { return Ok(Step::Wait) };
        let size = u64::from(header.size());
        let rest = Lsn(u64::from(header.remaining)).align_up(ALIGNMENT).0;
        self.next = if !header.first_is_contrecord() {
            Place::Record(page.advance(size))
        } else if rest < PAGE - size {
            Place::Record(page.advance(size + rest))
        } else {
            Place::Page(page.advance(PAGE))
        };
        Ok(Step::On)
    }

    fn record_at(&mut self, at: Lsn, show: &mut impl FnMut(&Record<'_>)) -> Result<Step, Invalid> {
        let mut lsn = at;
        if at.offset_in(PAGE) == 0 {
            let Some(header) = self.check(at)? else { return Ok(Step::Wait) };
            lsn = at.advance(u64::from(header.size()));
            if header.first_is_contrecord() {
                return Err(Invalid::ContrecordRequested { lsn });
            }
        }
        let room = (PAGE - lsn.offset_in(PAGE)) as usize;
        let Some(head) = self.bytes(lsn, room.min(HEADER_SIZE)) else { return Ok(Step::Wait) };
        let length = head.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let header = RecordHeader::parse(head);
        if let Some(header) = header {
            reader::validate(header, lsn, self.previous, self.known())?;
        } else if (length as usize) < HEADER_SIZE {
            return Err(reader::too_short(lsn, length));
        }
        match header.filter(|_| length as usize <= room) {
            Some(header) if self.bytes(lsn, length as usize).is_some() => {
                self.show(lsn, lsn.advance(u64::from(length)), header, false, show)?;
                Ok(Step::On)
            }
            Some(_) => Ok(Step::Wait),
            None => {
                let Some(piece) = self.bytes(lsn, room).map(<[u8]>::to_vec) else { return Ok(Step::Wait) };
                self.assembled = piece;
                let page = lsn.align_down(PAGE).advance(PAGE);
                self.partial = Some(Partial { lsn, length, header, page });
                Ok(Step::On)
            }
        }
    }

    /// Goes on with a record on its next page.
    fn go_on(&mut self, mut partial: Partial, show: &mut impl FnMut(&Record<'_>)) -> Result<Step, Invalid> {
        let (lsn, page) = (partial.lsn, partial.page);
        let Some(header) = self.check(page)? else { return Ok(Step::Wait) };
        if header.first_is_overwrite_contrecord(self.known()) {
            // A server that crashed gave it up.
            self.partial = None;
            self.next = Place::Record(page);
            return Ok(Step::On);
        }
        if !header.first_is_contrecord() {
            return Err(Invalid::NoContrecord { lsn });
        }
        let missing = partial.length.saturating_sub(u32::try_from(self.assembled.len()).unwrap_or(u32::MAX));
        if header.remaining == 0 || header.remaining != missing {
            return Err(Invalid::ContrecordLength { lsn, got: header.remaining, expected: missing });
        }
        let piece = missing.min(PAGE_SIZE - header.size());
        let from = page.advance(u64::from(header.size()));
        let Some(at) = from.0.checked_sub(self.base.0).map(|at| at as usize) else { return Ok(Step::Wait) };
        let Some(bytes) = self.buffer.get(at..at + piece as usize) else { return Ok(Step::Wait) };
        self.assembled.extend_from_slice(bytes);
        if partial.header.is_none() {
            partial.header = RecordHeader::parse(&self.assembled);
            if let Some(header) = partial.header {
                reader::validate(header, lsn, self.previous, self.known())?;
            }
        }
        if piece < missing {
            partial.page = page.advance(PAGE);
            self.partial = Some(partial);
            return Ok(Step::On);
        }
        let header = partial.header.ok_or(reader::too_short(lsn, partial.length))?;
        self.partial = None;
        self.show(lsn, from.advance(u64::from(piece)), header, true, show)?;
        Ok(Step::On)
    }

    /// Shows a whole record whose last byte is before `end`.
    #[inline]
    fn show(
        &mut self,
        lsn: Lsn,
        end: Lsn,
        header: RecordHeader,
        is_assembled: bool,
        show: &mut impl FnMut(&Record<'_>),
    ) -> Result<(), Invalid> {
        let version = self.known();
        let from = (lsn.0.saturating_sub(self.base.0)) as usize;
        let bytes = if is_assembled {
            self.assembled.as_slice()
        } else {
            self.buffer.get(from..from + header.total_length as usize).unwrap_or_default()
        };
        reader::finish(bytes, header, lsn, version, &mut self.blocks, &mut self.fragments)?;
        let mut end = end.align_up(ALIGNMENT);
        if is_switch(header) {
            end = end.align_up(u64::from(self.segment_size));
        }
        if let Some(start) = self.gap_start.take() {
            // The same WAL once more is no gap.
            if lsn > start {
                self.gaps.push(Gap { start, end: lsn });
            }
        }
        self.first.get_or_insert(lsn);
        self.previous = Some(lsn);
        self.next = Place::Record(end);
        self.end = Some(end);
        show(&Record {
            lsn,
            end,
            header,
            version,
            origin: self.fragments.origin,
            toplevel_xid: self.fragments.toplevel_xid,
            blocks: self.blocks.as_slice(),
            main_data: bytes.get(self.fragments.main_data.clone()).unwrap_or_default(),
            bytes,
        });
        Ok(())
    }
}
