//! Segments as one sequence of checked pages. Holds one buffer, whatever the size of the WAL.

use std::sync::Arc;

use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::page::{is_segment_size, PageHeader, PAGE_SIZE};
use crate::source::{SegmentFile, Segments};
use crate::version::PgVersion;

/// Bytes read from a segment at a time: some pages, and few enough to stay in a core's cache until decoded.
const BUFFER_SIZE: u32 = 32 * PAGE_SIZE;
/// What initdb makes without --wal-segsize.
const USUAL_SEGMENT_SIZE: u32 = 16 << 20;
const PAGE: u64 = PAGE_SIZE as u64;

/// What all pages of a WAL have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIdentity {
    /// The version that wrote it.
    pub version: PgVersion,
    /// System identifier of the cluster, as in `pg_controldata`.
    pub system_identifier: u64,
    /// Bytes in a segment.
    pub segment_size: u32,
}

/// Pages of a WAL, in order.
#[derive(Debug)]
pub(crate) struct Pages {
    segments: Arc<Segments>,
    highest_timeline: u32,
    /// Timeline of the WAL so far: no page that follows may be of an older one.
    timeline: u32,
    /// Where reading that was begun elsewhere goes on, and the file that was read there.
    resumed: (Lsn, Option<SegmentName>),
    identity: WalIdentity,
    /// The segment being read.
    current: Option<(SegmentName, SegmentFile)>,
    buffer: Vec<u8>,
    /// Page at the front of the buffer.
    buffer_start: Lsn,
    /// Bytes in the buffer.
    buffered: usize,
    /// The last page that was checked, with its header.
    checked: Option<(Lsn, PageHeader)>,
}

impl Pages {
    /// Finds the segment that `start` is in (the first one without a `start`) and what its first page says.
    pub(crate) fn open(
        segments: Arc<Segments>,
        start: Option<Lsn>,
        timeline: Option<u32>,
    ) -> Result<(Pages, Lsn), Error> {
        let highest_timeline = timeline.unwrap_or(u32::MAX);
        let (sample, sampled) = first_identity(&segments, highest_timeline)?;
        let start = match start {
            Some(start) => start,
            None => sample.start(sampled.segment_size).unwrap_or_default(),
        };
        let mut pages = Pages::with_identity(segments, sampled, highest_timeline, 0);
        let name = pages.name_of(start)?;
        if name != sample {
            // The sample only told the segment size; version and cluster are those of the WAL to be read.
            pages.identity = identity_of(&pages.segments, name, Some(sampled.segment_size))?;
        }
        pages.check_duplicates()?;
        Ok((pages, start))
    }

    /// The pages of a WAL that is known already; `timeline` is that of the WAL before, 0 for none.
    pub(crate) fn with_identity(
        segments: Arc<Segments>,
        identity: WalIdentity,
        highest_timeline: u32,
        timeline: u32,
    ) -> Pages {
        Pages {
            segments,
            highest_timeline,
            timeline,
            resumed: (Lsn(0), None),
            identity,
            current: None,
            buffer: Vec::new(),
            buffer_start: Lsn(0),
            buffered: 0,
            checked: None,
        }
    }

    /// Goes on at `at` as if all before had been read, the last of it from `file`: its name may be of an older timeline
    /// than its pages, and its first page of an older one than what was read.
    pub(crate) fn resume_at(&mut self, at: Lsn, file: Option<SegmentName>) {
        self.resumed = (at.align_down(PAGE), file);
    }

    /// The file being read.
    pub(crate) fn file(&self) -> Option<SegmentName> {
        self.current.as_ref().map(|(name, _)| *name)
    }

    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    pub(crate) fn highest_timeline(&self) -> u32 {
        self.highest_timeline
    }

    /// Two files for one segment may be copies, but not of two clusters: which of them was meant?
    fn check_duplicates(&self) -> Result<(), Error> {
        for (name, file) in self.segments.duplicates() {
            let Ok((_, header)) = header_of(name, file) else { continue };
            let lsn = name.start(self.identity.segment_size).unwrap_or_default();
            if let Some(long) = header.long {
                let (got, expected) = (long.system_identifier, self.identity.system_identifier);
                if got != expected {
                    let what = Invalid::SystemIdentifier { got, expected, lsn };
                    return Err(Error::Invalid { what, segment: name, previous: None });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn identity(&self) -> WalIdentity {
        self.identity
    }

    /// Timeline of the last page that was read.
    pub(crate) fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Reads the page at `page` unless it is at hand, and compares its header with where it stands, as
    /// `XLogReaderValidatePageHeader` does.
    pub(crate) fn check(&mut self, page: Lsn) -> Result<PageHeader, Error> {
        match self.checked {
            Some((checked, header)) if checked == page => return Ok(header),
            _ => {}
        }
        self.load(page)?;
        let header = PageHeader::parse(self.bytes(page, PAGE_SIZE as usize).unwrap_or_default());
        let (segment, offset) = self.place(page);
        let Some(header) = header else {
            return Err(self.short_read(page, 0));
        };
        // As PostgreSQL, which compares timelines only when reading forwards: a file is opened again where its end was
        // looked at before, and its first page may be of an older timeline than its last.
        let is_back = page < self.resumed.0 || self.checked.is_some_and(|(last, _)| page < last);
        let latest = if is_back { 0 } else { self.timeline };
        self.validate(header, page, latest).map_err(|what| Error::Invalid {
            what,
            segment,
            previous: None,
        })?;
        debug_assert!(offset != 0 || header.long.is_some());
        self.timeline = self.timeline.max(header.timeline);
        self.checked = Some((page, header));
        Ok(header)
    }

    /// `length` bytes at `from`, which must be within one checked page.
    pub(crate) fn bytes(&self, from: Lsn, length: usize) -> Option<&[u8]> {
        if from < self.buffer_start {
            return None;
        }
        let at = usize::try_from(from - self.buffer_start).ok()?;
        self.buffer.get(..self.buffered)?.get(at..at.checked_add(length)?)
    }

    /// What is left of the page in hand from `at` on; None if `at` is on another page, or at the beginning of
    /// one.
    #[inline]
    pub(crate) fn rest_of_page(&self, at: Lsn) -> Option<&[u8]> {
        let page = at.align_down(PAGE);
        match self.checked {
            Some((checked, _)) if checked == page && page != at && at >= self.buffer_start => {}
            _ => return None,
        }
        let from = usize::try_from(at - self.buffer_start).ok()?;
        let to = from + usize::try_from(PAGE - at.offset_in(PAGE)).ok()?;
        self.buffer.get(..self.buffered)?.get(from..to)
    }

    /// Passes over what follows up to there, which counts as read.
    pub(crate) fn pass_over(&self, until: Lsn) {
        let read = self.buffer_start.advance(self.buffered as u64);
        self.segments.watch().add(until.0.saturating_sub(read.0));
    }

    /// Whether there is WAL of this cluster in a segment after the one that holds `lsn`: if so, what stands
    /// at `lsn` is not the end of the WAL. Segments that were recycled, or prepared for later use, have other
    /// addresses on their pages, or none.
    pub(crate) fn continues_after(&self, lsn: Lsn) -> Option<SegmentName> {
        let size = self.identity.segment_size;
        // No page is of a later timeline than its file: one that says so is damaged, and must not hide what follows.
        let file = self.file().or(self.resumed.1);
        let timeline = file.map_or(u32::MAX, |file| file.timeline).min(self.timeline());
        let here = SegmentName::holding(lsn, timeline, size);
        let next = self.segments.after(here, self.highest_timeline, size)?;
        let start = next.start(size)?;
        let (_, header) = read_header(&self.segments, next).ok()?;
        self.validate(header, start, here.timeline).is_ok().then_some(next)
    }

    fn validate(&self, header: PageHeader, page: Lsn, latest_timeline: u32) -> Result<(), Invalid> {
        let (segment, _) = self.place(page);
        validate(header, page, segment, self.identity, latest_timeline)
    }

    /// Brings the page at `page` into the buffer.
    fn load(&mut self, page: Lsn) -> Result<(), Error> {
        if self.bytes(page, PAGE_SIZE as usize).is_some() {
            return Ok(());
        }
        let size = self.identity.segment_size;
        let offset = u32::try_from(page.offset_in(u64::from(size))).unwrap_or(u32::MAX);
        let is_current = self.current.as_ref().is_some_and(|(name, file)| {
            *name == SegmentName::holding(page, name.timeline, size) && file.position() <= offset
        });
        if !is_current {
            let name = self.name_of(page)?;
            let file = self.segments.open(name)?;
            self.current = Some((name, file));
            if offset != 0 {
                // A segment's first page says whose it is, so it is checked even when reading starts after it.
                self.check(page.align_down(u64::from(size)))?;
                let there = self.buffer_start.advance(self.buffered as u64);
                if there > page && there < page.advance(PAGE) {
                    // The file ends on this page, and was read to its end.
                    return Err(self.short_read(page, (there - page) as usize));
                }
            }
        }
        if self.bytes(page, PAGE_SIZE as usize).is_some() {
            return Ok(());
        }
        let wanted = BUFFER_SIZE.min(size.saturating_sub(offset)) as usize;
        self.buffer.resize(BUFFER_SIZE as usize, 0);
        self.buffered = 0;
        let (Some((_, file)), Some(buffer)) = (&mut self.current, self.buffer.get_mut(..wanted)) else {
            return Err(self.short_read(page, 0));
        };
        file.skip_to(offset)?;
        self.buffered = file.fill(buffer)?;
        self.buffer_start = page;
        if self.buffered < wanted && file.must_be_whole() {
            return Err(file.cut_short());
        }
        if self.buffered < PAGE_SIZE as usize {
            return Err(self.short_read(page, self.buffered));
        }
        Ok(())
    }

    /// The file to read for `lsn`: on the highest timeline allowed, never one below that of the WAL so far.
    fn name_of(&self, lsn: Lsn) -> Result<SegmentName, Error> {
        let size = self.identity.segment_size;
        let wanted = SegmentName::holding(lsn, self.highest_timeline, size);
        let read_before = self.file().or(self.resumed.1);
        let read_before = read_before.filter(|name| *name == SegmentName::holding(lsn, name.timeline, size));
        let lowest = read_before.map_or(u32::MAX, |name| name.timeline).min(self.timeline());
        self.segments.find(wanted, lowest, size).ok_or_else(|| {
            let known = self.segments.names().map(|name| name.timeline).max().unwrap_or(1);
            let timeline = self.highest_timeline.min(known);
            Error::MissingSegment {
                segment: SegmentName { timeline, ..wanted },
                lsn,
                next: self.continues_after(lsn),
            }
        })
    }

    fn place(&self, lsn: Lsn) -> (SegmentName, u32) {
        let size = self.identity.segment_size;
        let timeline = self.current.as_ref().map_or(self.timeline(), |(name, _)| name.timeline);
        let offset = u32::try_from(lsn.offset_in(u64::from(size))).unwrap_or(u32::MAX);
        (SegmentName::holding(lsn, timeline, size), offset)
    }

    /// The segment that `lsn` is in, named as the file being read.
    pub(crate) fn segment_of(&self, lsn: Lsn) -> SegmentName {
        self.place(lsn).0
    }

    fn short_read(&self, page: Lsn, got: usize) -> Error {
        let (segment, offset) = self.place(page);
        let what = Invalid::ShortRead { segment, offset, got, expected: PAGE_SIZE as usize };
        Error::Invalid { what, segment, previous: None }
    }
}

/// Compares a page's header with where it stands, as `XLogReaderValidatePageHeader` does.
pub(crate) fn validate(
    header: PageHeader,
    page: Lsn,
    segment: SegmentName,
    expected: WalIdentity,
    latest_timeline: u32,
) -> Result<(), Invalid> {
    let offset = u32::try_from(page.offset_in(u64::from(expected.segment_size))).unwrap_or(u32::MAX);
    if header.magic != expected.version.magic() {
        return Err(Invalid::Magic { got: header.magic, segment, lsn: page, offset });
    }
    if !header.has_known_flags(expected.version) || (offset == 0 && header.long.is_none()) {
        return Err(Invalid::PageInfo { got: header.info, segment, lsn: page, offset });
    }
    if let Some(long) = header.long {
        if long.system_identifier != expected.system_identifier {
            return Err(Invalid::SystemIdentifier {
                got: long.system_identifier,
                expected: expected.system_identifier,
                lsn: page,
            });
        }
        if long.segment_size != expected.segment_size {
            return Err(Invalid::SegmentSize {
                got: long.segment_size,
                expected: expected.segment_size,
                lsn: page,
            });
        }
        if long.block_size != PAGE_SIZE {
            return Err(Invalid::BlockSize { got: long.block_size, expected: PAGE_SIZE, lsn: page });
        }
    }
    if header.address != page {
        return Err(Invalid::PageAddress { got: header.address, segment, lsn: page, offset });
    }
    if header.timeline < latest_timeline {
        let (got, latest) = (header.timeline, latest_timeline);
        return Err(Invalid::Timeline { got, latest, segment, lsn: page, offset });
    }
    Ok(())
}

/// The first segment whose first page can be understood. The oldest segment of a server is in use; newer ones
/// may be prepared for later use and empty, so they are asked only if it does not answer.
fn first_identity(segments: &Segments, highest_timeline: u32) -> Result<(SegmentName, WalIdentity), Error> {
    let mut failure = None;
    for name in segments.names().filter(|name| name.timeline <= highest_timeline) {
        match identity_of(segments, name, None) {
            Ok(identity) => return Ok((name, identity)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| Error::NoSegments { path: segments.origin().to_owned() }))
}

/// `segment_size` is only for the locations in messages; without it the length of the file is the best guess.
fn identity_of(
    segments: &Segments,
    name: SegmentName,
    segment_size: Option<u32>,
) -> Result<WalIdentity, Error> {
    let (length, header) = read_header(segments, name)?;
    let lsn = name.start(segment_size.unwrap_or(length)).unwrap_or_default();
    let invalid = |what| Error::Invalid { what, segment: name, previous: None };
    let Some(version) = PgVersion::from_magic(header.magic) else {
        let got = header.magic;
        return Err(invalid(match PgVersion::developed_with(got) {
            // A number alone is easily damage; with a long header after it, it is a format.
            Some(version) if header.long.is_some_and(|long| is_segment_size(long.segment_size)) => {
                Invalid::PreRelease { got, version, segment: name }
            }
            _ => Invalid::Magic { got, segment: name, lsn, offset: 0 },
        }));
    };
    let Some(long) = header.long else {
        return Err(invalid(Invalid::PageInfo { got: header.info, segment: name, lsn, offset: 0 }));
    };
    if !is_segment_size(long.segment_size) {
        return Err(invalid(Invalid::SegmentSizeRange { got: long.segment_size, segment: name }));
    }
    if long.block_size != PAGE_SIZE {
        return Err(invalid(Invalid::BlockSize { got: long.block_size, expected: PAGE_SIZE, lsn }));
    }
    Ok(WalIdentity { version, system_identifier: long.system_identifier, segment_size: long.segment_size })
}

/// Length of the file (as a segment size), and the header of its first page.
fn read_header(segments: &Segments, name: SegmentName) -> Result<(u32, PageHeader), Error> {
    header_of(name, segments.open(name)?)
}

fn header_of(name: SegmentName, mut file: SegmentFile) -> Result<(u32, PageHeader), Error> {
    let length =
        file.length()?.map_or(USUAL_SEGMENT_SIZE, |length| u32::try_from(length).unwrap_or(u32::MAX));
    let mut page = [0; PAGE as usize];
    let got = file.fill(&mut page)?;
    let header = page.get(..got).filter(|page| page.len() == PAGE as usize).and_then(PageHeader::parse);
    let short = Invalid::ShortRead { segment: name, offset: 0, got, expected: PAGE as usize };
    let header = header.ok_or(Error::Invalid { what: short, segment: name, previous: None })?;
    Ok((length, header))
}
