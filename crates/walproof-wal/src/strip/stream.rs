//! Strips WAL while it arrives: it takes bytes in order from the beginning of a segment, and gives as many
//! without contents. What has arrived of a record that is not complete is held back, and nothing else.

use std::collections::VecDeque;

use crate::block::{decode, BlockRefs, Fragments};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PageHeader, PAGE_SIZE};
use crate::record::{checksum, Record, RecordHeader, ALIGNMENT, HEADER_SIZE, MAX_LENGTH};
use crate::rmgr::RmgrId;
use crate::strip::blank::{blank, CRC, PADDING};
use crate::strip::Look;
use crate::version::PgVersion;

const PAGE: u64 = PAGE_SIZE as u64;
const SWITCH: u8 = 0x40;

/// WAL of one server, as it comes.
#[derive(Debug)]
pub struct Stream {
    segment_size: u32,
    /// None until the first page has come.
    version: Option<PgVersion>,
    timeline: u32,
    /// What has come and was not given back; its first byte is at `at`.
    buffer: VecDeque<u8>,
    at: Lsn,
    /// Up to there bytes are given back: those of `made`, then zeros, between the headers of pages.
    until: Lsn,
    made: VecDeque<u8>,
    /// After that, up to there: the rest of a segment after a switch, which has no headers of pages either.
    unused: Lsn,
    /// Pages before that one were looked at for the record in hand: a long one comes in many pieces.
    looked: Lsn,
    /// Where that record ends, once it was looked at.
    end: Option<Lsn>,
}

/// What the buffer says of the record at its beginning.
enum Attempt {
    /// Its end has not come.
    Wait,
    /// A crash cut it off; WAL goes on at that page.
    GivenUp(Lsn),
    /// All of it, and where it ends.
    Whole(Vec<u8>, Lsn),
}

impl Stream {
    /// Begins at `start`, where a segment begins.
    #[must_use]
    pub fn new(start: Lsn, segment_size: u32) -> Stream {
        Stream {
            segment_size,
            version: None,
            timeline: 0,
            buffer: VecDeque::new(),
            at: start,
            until: start,
            made: VecDeque::new(),
            unused: start,
            looked: start,
            end: None,
        }
    }

    /// Takes bytes that follow those before; appends to `out` what follows what was given back before. Each record is
    /// shown to `look` before its contents are blanked out.
    ///
    /// # Errors
    /// [`Error::Invalid`] where no page or record is: what cannot be read cannot be stripped.
    pub fn push(&mut self, bytes: &[u8], look: &mut Look<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        self.buffer.extend(bytes);
        self.buffer.make_contiguous();
        loop {
            if !self.give_back(out)? || self.buffer.len() < ALIGNMENT as usize {
                return Ok(());
            }
            self.buffer.make_contiguous();
            if !self.next(look)? {
                return Ok(());
            }
            self.end = None;
        }
    }

    /// Gives back bytes up to `until`, and the header of the page that begins there; false when more have to come
    /// before.
    fn give_back(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            if self.at >= self.until && self.at < self.unused {
                let count = (self.unused - self.at).min(self.buffer.len() as u64) as usize;
                self.buffer.drain(..count);
                out.resize(out.len() + count, 0);
                self.at = self.at.advance(count as u64);
                if self.at < self.unused {
                    return Ok(false);
                }
                self.until = self.at;
            }
            if self.at.offset_in(PAGE) == 0 {
                let Some(header) = self.header(self.at)? else { return Ok(false) };
                let size = header.size() as usize;
                out.extend(self.buffer.drain(..size).enumerate().map(|(at, byte)| {
                    if (20..24).contains(&at) {
                        0
                    } else {
                        byte
                    }
                }));
                let page = self.at;
                self.at = page.advance(size as u64);
                if self.version.is_none() {
                    self.begin(header)?;
                } else if header.first_is_overwrite_contrecord(self.version.unwrap_or(PgVersion::V13))
                    && page < self.until
                {
                    // What the stream began in was given up.
                    self.until = self.at;
                    self.made.clear();
                }
                self.until = self.until.max(self.at);
                continue;
            }
            let to_page = PAGE - self.at.offset_in(PAGE);
            let count = (self.until - self.at).min(to_page).min(self.buffer.len() as u64) as usize;
            if count == 0 {
                return Ok(self.at == self.until);
            }
            self.buffer.drain(..count);
            out.extend((0..count).map(|_| self.made.pop_front().unwrap_or(0)));
            self.at = self.at.advance(count as u64);
        }
    }

    /// Of a record that began before, what is left is passed over.
    fn begin(&mut self, header: PageHeader) -> Result<(), Error> {
        let version = PgVersion::from_magic(header.magic);
        let (got, lsn) = (header.magic, header.address);
        let segment = self.segment();
        self.version =
            Some(version.ok_or_else(|| self.invalid(Invalid::Magic { got, segment, lsn, offset: 0 }))?);
        self.timeline = header.timeline;
        if header.first_is_contrecord() {
            self.until = self.after(u64::from(header.remaining)).align_up(ALIGNMENT);
        }
        Ok(())
    }

    /// Looks at the record at the beginning of the buffer; false when more has to come.
    fn next(&mut self, look: &mut Look<'_>) -> Result<bool, Error> {
        let (lsn, version) = (self.at, self.version.unwrap_or(PgVersion::V13));
        let head =
            self.part(0, 4).and_then(|head| head.first_chunk()).map_or(0, |head| u32::from_le_bytes(*head));
        if (head as usize) < HEADER_SIZE {
            return Err(self.invalid(Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got: head }));
        }
        if head > MAX_LENGTH {
            return Err(self.invalid(Invalid::RecordTooLong { lsn, got: head }));
        }
        match self.attempt(head, version)? {
            Attempt::Wait => return Ok(false),
            Attempt::GivenUp(page) => {
                let mut header =
                    self.part(0, HEADER_SIZE.min((page - lsn) as usize)).unwrap_or_default().to_vec();
                header.truncate((PAGE - lsn.offset_in(PAGE)) as usize);
                for unneeded in [PADDING, CRC] {
                    header.get_mut(unneeded).into_iter().for_each(|field| field.fill(0));
                }
                self.made = header.into();
                self.until = page;
            }
            Attempt::Whole(bytes, end) => {
                let header = RecordHeader::parse(&bytes);
                let header = header.filter(|header| checksum(&bytes) == Some(header.crc));
                let header = header.ok_or_else(|| self.invalid(Invalid::Checksum { lsn }))?;
                let (mut blocks, mut fragments) = (BlockRefs::new(), Fragments::default());
                decode(&bytes, lsn, version, &mut blocks, &mut fragments)
                    .map_err(|what| self.invalid(what))?;
                let record = Record {
                    lsn,
                    end,
                    header,
                    version,
                    origin: fragments.origin,
                    toplevel_xid: fragments.toplevel_xid,
                    blocks: blocks.as_slice(),
                    main_data: bytes.get(fragments.main_data.clone()).unwrap_or_default(),
                    bytes: &bytes,
                };
                look(&record);
                self.made = blank(&record).0.into();
                let is_switch = header.rmgr == RmgrId::XLOG && header.info & 0xF0 == SWITCH;
                self.until = end;
                if is_switch {
                    self.unused = end.align_up(u64::from(self.segment_size));
                }
            }
        }
        Ok(true)
    }

    /// Looks whether the record continues on each page, and puts it together when its end has come.
    fn attempt(&mut self, length: u32, version: PgVersion) -> Result<Attempt, Error> {
        let (lsn, end) = (self.at, self.end.unwrap_or_else(|| self.after(u64::from(length))));
        self.end = Some(end);
        let mut page = self.looked.max(lsn.align_up(PAGE));
        while page < end {
            let Some(header) = self.header(page)? else { break };
            if header.first_is_overwrite_contrecord(version) {
                return Ok(Attempt::GivenUp(page));
            }
            if !header.first_is_contrecord() {
                return Err(self.invalid(Invalid::NoContrecord { lsn }));
            }
            page = page.advance(PAGE);
        }
        self.looked = page;
        if self.part(0, (end - lsn) as usize).is_none() {
            return Ok(Attempt::Wait);
        }
        let (mut bytes, mut at) = (Vec::with_capacity(length as usize), lsn);
        while at < end {
            if at.offset_in(PAGE) == 0 {
                at = at.advance(u64::from(header_size_at(at, self.segment_size)));
            }
            let count = (end - at).min(PAGE - at.offset_in(PAGE)) as usize;
            bytes.extend_from_slice(self.part((at - lsn) as usize, count).unwrap_or_default());
            at = at.advance(count as u64);
        }
        Ok(Attempt::Whole(bytes, end.align_up(ALIGNMENT)))
    }

    /// The header of the page at `page`, if it has come, and if it is that page's.
    fn header(&self, page: Lsn) -> Result<Option<PageHeader>, Error> {
        let size = header_size_at(page, self.segment_size);
        let Some(header) = self.part((page - self.at) as usize, size as usize) else { return Ok(None) };
        let header =
            PageHeader::parse(header).filter(|header| header.size() == size && header.address == page);
        let known =
            self.version.is_none_or(|version| header.is_some_and(|header| header.magic == version.magic()));
        let (segment, offset) = (self.segment(), page.offset_in(u64::from(self.segment_size)) as u32);
        let wrong = Invalid::PageAddress { got: Lsn(0), segment, lsn: page, offset };
        header.filter(|_| known).map(Some).ok_or_else(|| self.invalid(wrong))
    }

    fn part(&self, from: usize, length: usize) -> Option<&[u8]> {
        self.buffer.as_slices().0.get(from..from.checked_add(length)?)
    }

    /// Where so many bytes of a record end that begin, or go on, at the place in hand.
    fn after(&self, mut count: u64) -> Lsn {
        let mut at = self.at;
        while count > 0 {
            if at.offset_in(PAGE) == 0 {
                at = at.advance(u64::from(header_size_at(at, self.segment_size)));
            }
            let piece = count.min(PAGE - at.offset_in(PAGE));
            count -= piece;
            at = at.advance(piece);
        }
        at
    }

    fn segment(&self) -> SegmentName {
        SegmentName::holding(self.at, self.timeline, self.segment_size)
    }

    fn invalid(&self, what: Invalid) -> Error {
        Error::Invalid { what, segment: self.segment(), previous: None }
    }
}
