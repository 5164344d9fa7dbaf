//! The pages of one segment, one after the other, whatever is wrong with them.
//!
//! The checks and their words are those of [`Reader`](crate::Reader). What differs is what happens then: a record or
//! page that is wrong ends a stretch, and the next page that is in order and where a record begins starts another.

use std::mem;

use super::fault::Fault;
use super::{FileFacts, Head, Stretch};
use crate::block::{self, BlockRefs, Fragments};
use crate::bytes::Bytes;
use crate::edge::{Begun, Rest, HEADER};
use crate::error::Invalid;
use crate::lsn::{Lsn, SegmentName};
use crate::page::{is_segment_size, PageHeader, PAGE_SIZE};
use crate::record::{checksum, Record, RecordHeader, ALIGNMENT, HEADER_SIZE, MAX_LENGTH};
use crate::rmgr::RmgrId;
use crate::transaction::TransactionEnd;
use crate::version::PgVersion;

const PAGE: u64 = PAGE_SIZE as u64;
const CHECKPOINT_SHUTDOWN: u8 = 0x00;
const SWITCH: u8 = 0x40;
const END_OF_RECOVERY: u8 = 0x90;
/// Faults that are told of one file; where there are more, the rest of it is one.
const MOST_FAULTS: usize = 32;

/// What the next page is expected to begin with.
enum State {
    /// It is the segment's first.
    First,
    /// The rest of a record of the segment before, of which so many bytes are missing.
    Rest(u32),
    /// A record.
    Record,
    /// The rest of the record in hand.
    Assembling { lsn: Lsn, total_length: u32 },
    /// Anything: something was wrong.
    Lost,
    /// The segment is not used any more.
    Switched,
}

/// Reads a segment page by page.
pub(super) struct Walk {
    name: SegmentName,
    start: Lsn,
    size: u32,
    state: State,
    facts: FileFacts,
    stretch: Stretch,
    /// The record before the next one, if that is known.
    previous: Option<Lsn>,
    /// What was wrong last, until a page shows that the WAL goes on.
    pending: Option<Fault>,
    is_clean: bool,
    /// A page begins a timeline that no record has switched to yet.
    begun_timeline: Option<(Lsn, u32, u32)>,
    assembled: Vec<u8>,
    blocks: BlockRefs,
    fragments: Fragments,
}

impl Walk {
    pub(super) fn new(name: SegmentName, start: Lsn, size: u32) -> Walk {
        Walk {
            name,
            start,
            size,
            state: State::First,
            facts: FileFacts::default(),
            stretch: Stretch { start, end: start, ..Stretch::default() },
            previous: None,
            pending: None,
            is_clean: false,
            begun_timeline: None,
            assembled: Vec::new(),
            blocks: BlockRefs::new(),
            fragments: Fragments::default(),
        }
    }

    /// What was found, after the last page.
    pub(super) fn finish(mut self) -> FileFacts {
        match mem::replace(&mut self.state, State::Lost) {
            State::First => {}
            State::Rest(_) => {
                self.stretch.end = self.facts_end();
                self.close();
            }
            State::Assembling { lsn, .. } => {
                self.facts.tail = Begun::new(lsn, &self.assembled, HEADER);
                self.close();
            }
            State::Record | State::Switched => {
                if self.pending.is_none() {
                    self.close();
                }
            }
            State::Lost => {}
        }
        if let Some((page, timeline, latest)) = self.begun_timeline {
            let (segment, offset) = (self.name, self.offset(page));
            let what = Invalid::Timeline { got: timeline, latest, segment, lsn: page, offset };
            let fault = Fault { resumes: Some(page), ..Fault::invalid(&what, page, self.start) };
            self.facts.faults.push(fault);
        }
        self.facts.is_clean_end = self.is_clean && self.pending.is_some();
        self.facts.end = self.pending.take();
        self.facts
    }

    fn facts_end(&self) -> Lsn {
        self.start.advance(u64::from(self.size))
    }

    /// The next page, `PAGE_SIZE` bytes that belong at `page`.
    pub(super) fn page(&mut self, page: Lsn, bytes: &[u8]) {
        if matches!(self.state, State::Switched) {
            return;
        }
        let header = match self.checked_header(page, bytes) {
            Ok(header) => header,
            Err(what) => {
                self.page_is_wrong(&what, page, bytes);
                return;
            }
        };
        let mut at = header.size() as usize;
        let is_overwritten =
            self.facts.version.is_some_and(|version| header.first_is_overwrite_contrecord(version));
        match mem::replace(&mut self.state, State::Record) {
            State::First => {
                if is_overwritten {
                    self.facts.head = Head::Overwrite;
                } else if header.first_is_contrecord() {
                    self.facts.head = Head::Rest(Rest { remaining: header.remaining, ..Rest::default() });
                    at = self.rest(page, bytes, at, header.remaining);
                } else {
                    self.facts.head = Head::Record;
                }
            }
            State::Rest(missing) => {
                if is_overwritten {
                    // The record of the segment before was given up here.
                    self.facts.head = Head::Broken;
                } else if let Some(what) = self.wrong_continuation(&header, missing, self.start) {
                    self.facts.head = Head::Broken;
                    self.wrong(&what, page, page, bytes);
                    return;
                } else {
                    at = self.rest(page, bytes, at, missing);
                }
            }
            State::Record => {
                if header.first_is_contrecord() {
                    let lsn = page.advance(u64::from(header.size()));
                    self.wrong(&Invalid::ContrecordRequested { lsn }, page, page, bytes);
                    return;
                }
            }
            State::Assembling { lsn, total_length } => {
                let missing =
                    total_length.saturating_sub(u32::try_from(self.assembled.len()).unwrap_or(u32::MAX));
                if is_overwritten {
                    // A server gave the record up after a crash, and goes on here.
                } else if let Some(what) = self.wrong_continuation(&header, missing, lsn) {
                    // A page without any continuation begins with a record, as far as its header agrees with itself.
                    let is_record = !header.first_is_contrecord() && header.remaining == 0;
                    self.wrong(&what, lsn, page, bytes);
                    if !is_record {
                        return;
                    }
                    self.resume(page.advance(at as u64));
                } else {
                    match self.assemble(lsn, total_length, missing, page, bytes, at) {
                        Some(next) => at = next,
                        None => return,
                    }
                }
            }
            State::Lost => {
                self.facts_known(&header);
                let rest = if header.first_is_contrecord() { header.remaining as usize } else { 0 };
                at += rest.next_multiple_of(ALIGNMENT as usize);
                if at >= PAGE as usize {
                    self.goes_on(page);
                    self.state = State::Lost;
                    return;
                }
                self.resume(page.advance(at as u64));
            }
            State::Switched => return,
        }
        if matches!(self.state, State::Record) {
            self.records(page, bytes, at);
        }
    }

    /// The records that begin on the page from offset `at` on.
    fn records(&mut self, page: Lsn, bytes: &[u8], mut at: usize) {
        while at < PAGE as usize {
            let lsn = page.advance(at as u64);
            let head = bytes.get(at..).unwrap_or_default();
            let total_length = head.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            let header = RecordHeader::parse(head);
            let checked = match header {
                Some(header) => self.checked_record(header, lsn),
                None if (total_length as usize) < HEADER_SIZE => Err(too_short(lsn, total_length)),
                None => Ok(()),
            };
            if let Err(what) = checked {
                return self.wrong(&what, lsn, page, bytes);
            }
            let (Some(header), Some(record)) = (header, head.get(..total_length as usize)) else {
                self.assembled.clear();
                self.assembled.extend_from_slice(head);
                self.state = State::Assembling { lsn, total_length };
                return;
            };
            if let Err(what) = self.take(record, header, lsn) {
                return self.wrong(&what, lsn, page, bytes);
            }
            at += record.len().next_multiple_of(ALIGNMENT as usize);
            if self.ended(header, page.advance(at as u64)) {
                return;
            }
        }
        self.state = State::Record;
    }

    /// Adds the page's part of the record in hand. Where the next one begins on this page; None if not on it.
    fn assemble(
        &mut self,
        lsn: Lsn,
        total_length: u32,
        missing: u32,
        page: Lsn,
        bytes: &[u8],
        at: usize,
    ) -> Option<usize> {
        let part = bytes.get(at..).unwrap_or_default();
        let count = part.len().min(missing as usize);
        self.assembled.extend_from_slice(part.get(..count).unwrap_or_default());
        let header = RecordHeader::parse(&self.assembled);
        if let Some(Err(what)) = header.map(|header| self.checked_record(header, lsn)) {
            self.wrong(&what, lsn, page, bytes);
            return None;
        }
        if count < missing as usize {
            self.state = State::Assembling { lsn, total_length };
            return None;
        }
        let assembled = mem::take(&mut self.assembled);
        let taken = match header {
            Some(header) => self.take(&assembled, header, lsn).map(|()| header),
            None => Err(too_short(lsn, total_length)),
        };
        self.assembled = assembled;
        let next = at + count.next_multiple_of(ALIGNMENT as usize);
        match taken {
            Ok(header) => (!self.ended(header, page.advance(next as u64))).then_some(next),
            Err(what) => {
                // The pages agree about its length: whatever is wrong with it, the next record begins after it.
                self.wrong(&what, lsn, page, bytes);
                self.resume(page.advance(next as u64));
                Some(next)
            }
        }
    }

    /// Adds the page's part of the segment before's last record. Where the next record begins.
    fn rest(&mut self, page: Lsn, bytes: &[u8], at: usize, missing: u32) -> usize {
        let part = bytes.get(at..).unwrap_or_default();
        let count = part.len().min(missing as usize);
        if let Head::Rest(rest) = &mut self.facts.head {
            rest.add(part.get(..count).unwrap_or_default(), HEADER);
        }
        let left = missing.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.state = if left > 0 { State::Rest(left) } else { State::Record };
        let next = at + count.next_multiple_of(ALIGNMENT as usize);
        self.stretch.end = page.advance(next as u64);
        next
    }

    /// Whether a record that ended at `end` is the segment's last.
    fn ended(&mut self, header: RecordHeader, end: Lsn) -> bool {
        self.stretch.end = end;
        let is_switch = header.rmgr == RmgrId::XLOG && header.info & 0xF0 == SWITCH;
        if is_switch {
            self.stretch.end = self.facts_end();
            self.state = State::Switched;
        }
        is_switch
    }

    /// A record that is here in one piece: its checksum, its parts, and what it tells.
    fn take(&mut self, bytes: &[u8], header: RecordHeader, lsn: Lsn) -> Result<(), Invalid> {
        if checksum(bytes) != Some(header.crc) {
            return Err(Invalid::Checksum { lsn });
        }
        let Some(version) = self.facts.version else { return Ok(()) };
        block::decode(bytes, lsn, version, &mut self.blocks, &mut self.fragments)?;
        let main_data = bytes.get(self.fragments.main_data.clone()).unwrap_or_default();
        if header.rmgr == RmgrId::TRANSACTION {
            let record = Record {
                lsn,
                end: lsn,
                header,
                version,
                origin: self.fragments.origin,
                toplevel_xid: self.fragments.toplevel_xid,
                blocks: self.blocks.as_slice(),
                main_data,
                bytes,
            };
            if let Some(end) = TransactionEnd::from_record(&record) {
                let time = end.time_unix_us;
                let (first, last) = self.stretch.times.unwrap_or((time, time));
                self.stretch.times = Some((first.min(time), last.max(time)));
            }
        } else if header.rmgr == RmgrId::XLOG {
            if let Some((to, from)) = timelines(header.info, main_data).filter(|(to, from)| to != from) {
                self.stretch.switches.push((lsn, to, from));
                self.begun_timeline = self.begun_timeline.filter(|(_, timeline, _)| *timeline != to);
            }
        }
        self.stretch.first.get_or_insert((lsn, header.prev));
        self.stretch.last = Some(lsn);
        self.stretch.records += 1;
        self.previous = Some(lsn);
        Ok(())
    }

    /// The checks of `ValidXLogRecordHeader`.
    fn checked_record(&self, header: RecordHeader, lsn: Lsn) -> Result<(), Invalid> {
        if (header.total_length as usize) < HEADER_SIZE {
            return Err(too_short(lsn, header.total_length));
        }
        if !self.facts.version.is_some_and(|version| header.rmgr.is_valid(version)) {
            return Err(Invalid::ResourceManager { lsn, got: header.rmgr.0 });
        }
        if self.previous.map_or(header.prev >= lsn, |previous| header.prev != previous) {
            return Err(Invalid::PrevLink { lsn, got: header.prev });
        }
        if header.total_length > MAX_LENGTH {
            return Err(Invalid::RecordTooLong { lsn, got: header.total_length });
        }
        Ok(())
    }

    /// The page's header, compared with where it stands.
    fn checked_header(&mut self, page: Lsn, bytes: &[u8]) -> Result<PageHeader, Invalid> {
        let (segment, offset, lsn) = (self.name, self.offset(page), page);
        let short = Invalid::ShortRead { segment, offset, got: bytes.len(), expected: PAGE_SIZE as usize };
        let header = PageHeader::parse(bytes).ok_or(short)?;
        let Some(version) = PgVersion::from_magic(header.magic) else {
            return Err(match PgVersion::developed_with(header.magic) {
                Some(version) if header.long.is_some_and(|long| is_segment_size(long.segment_size)) => {
                    Invalid::PreRelease { got: header.magic, version, segment }
                }
                _ => Invalid::Magic { got: header.magic, segment, lsn, offset },
            });
        };
        if self.facts.version.is_some_and(|known| known != version) {
            return Err(Invalid::Magic { got: header.magic, segment, lsn, offset });
        }
        if !header.has_known_flags(version) || (offset == 0) != header.long.is_some() {
            return Err(Invalid::PageInfo { got: header.info, segment, lsn, offset });
        }
        if let Some(long) = header.long {
            // The owner is told even of a file whose pages belong elsewhere.
            if is_segment_size(long.segment_size) {
                self.facts.system_identifier = Some(long.system_identifier);
                self.facts.version = Some(version);
            }
            if long.segment_size != self.size {
                let (got, expected) = (long.segment_size, self.size);
                return Err(Invalid::SegmentSize { got, expected, lsn });
            }
            if long.block_size != PAGE_SIZE {
                return Err(Invalid::BlockSize { got: long.block_size, expected: PAGE_SIZE, lsn });
            }
        }
        if header.address != page {
            if offset == 0 {
                self.facts.address = Some(header.address);
            }
            return Err(Invalid::PageAddress { got: header.address, segment, lsn, offset });
        }
        let latest = self.facts.timelines.map_or(0, |(_, latest)| latest);
        if header.timeline < latest || header.timeline > self.name.timeline || header.timeline == 0 {
            let latest = if latest == 0 { self.name.timeline } else { latest };
            return Err(Invalid::Timeline { got: header.timeline, latest, segment, lsn, offset });
        }
        // The header disagrees with itself: something continues, or nothing does.
        if header.first_is_contrecord() != (header.remaining != 0) {
            return Err(Invalid::PageInfo { got: header.info, segment, lsn, offset });
        }
        if !matches!(self.state, State::Lost) {
            self.facts_known(&header);
        }
        Ok(header)
    }

    /// Keeps what a page that is in order says of its WAL.
    fn facts_known(&mut self, header: &PageHeader) {
        self.facts.version = self.facts.version.or(PgVersion::from_magic(header.magic));
        let page = header.address;
        self.facts.timelines = match self.facts.timelines {
            None => Some((header.timeline, header.timeline)),
            Some((first, latest)) => {
                let is_given_up =
                    self.facts.version.is_some_and(|version| header.first_is_overwrite_contrecord(version));
                let is_told = self.stretch.switches.iter().any(|&(_, to, _)| to == header.timeline);
                // After damage, the record that switched may be lost.
                let is_known = is_told || is_given_up || !self.facts.stretches.is_empty();
                if header.timeline != latest && !is_known {
                    self.begun_timeline = Some((page, header.timeline, latest));
                }
                Some((first, header.timeline))
            }
        };
    }

    fn wrong_continuation(&self, header: &PageHeader, missing: u32, lsn: Lsn) -> Option<Invalid> {
        if !header.first_is_contrecord() {
            return Some(Invalid::NoContrecord { lsn });
        }
        let (got, expected) = (header.remaining, missing);
        (got == 0 || got != missing).then_some(Invalid::ContrecordLength { lsn, got, expected })
    }

    /// A page's header is wrong: whatever was in hand ends before it.
    fn page_is_wrong(&mut self, what: &Invalid, page: Lsn, bytes: &[u8]) {
        let is_stale = PageHeader::parse(bytes)
            .is_some_and(|header| PgVersion::from_magic(header.magic).is_some() && header.address < page);
        let is_unused = is_stale || bytes.iter().all(|&byte| byte == 0);
        if self.pending.is_some() {
            self.is_clean &= is_unused;
            return;
        }
        // A record that goes on where there is nothing: it began to be written and was not.
        self.fail(Fault::invalid(what, page, self.start));
        self.is_clean = is_unused;
    }

    /// Something on the page is wrong: the record at `lsn`, or the page itself.
    fn wrong(&mut self, what: &Invalid, lsn: Lsn, page: Lsn, bytes: &[u8]) {
        self.fail(Fault::invalid(what, lsn, self.start));
        let from = usize::try_from(lsn - page).unwrap_or_default();
        self.is_clean = bytes.get(from..).unwrap_or_default().iter().all(|&byte| byte == 0);
    }

    fn fail(&mut self, fault: Fault) {
        if matches!(self.state, State::First | State::Rest(_)) {
            self.facts.head = Head::Broken;
        }
        self.close();
        self.state = State::Lost;
        self.previous = None;
        self.pending = Some(fault);
    }

    /// Ends the stretch, if there is anything in it.
    fn close(&mut self) {
        let stretch = mem::take(&mut self.stretch);
        if stretch.end > stretch.start {
            self.facts.stretches.push(stretch);
        }
    }

    /// A page is in order: what was wrong before is damage, since the WAL goes on.
    fn goes_on(&mut self, at: Lsn) {
        if let Some(fault) = self.pending.take() {
            if self.facts.faults.len() < MOST_FAULTS {
                self.facts.faults.push(Fault { resumes: Some(at), ..fault });
            }
        }
    }

    /// Records begin again.
    fn resume(&mut self, at: Lsn) {
        self.goes_on(at);
        self.stretch = Stretch { start: at, end: at, ..Stretch::default() };
        self.state = State::Record;
    }

    fn offset(&self, page: Lsn) -> u32 {
        u32::try_from(page - self.start).unwrap_or(u32::MAX)
    }
}

fn too_short(lsn: Lsn, got: u32) -> Invalid {
    Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got }
}

/// The timeline from a record on, and the one before it, of records that may change it.
fn timelines(info: u8, main_data: &[u8]) -> Option<(u32, u32)> {
    let mut bytes = Bytes(main_data);
    match info & 0xF0 {
        CHECKPOINT_SHUTDOWN | END_OF_RECOVERY => {
            bytes.skip(8)?; // redo point, or time
            Some((bytes.u32()?, bytes.u32()?))
        }
        _ => None,
    }
}
