//! The segments that are being written: nothing but the headers of their pages at first, to which records are added.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PageHeader, PAGE_SIZE};
use crate::pages::WalIdentity;
use crate::source::Segments;

const PAGE: u64 = PAGE_SIZE as u64;
const HEADER_PADDING: std::ops::Range<usize> = 20..24;

/// A segment as it is, and as it will be.
struct Loaded {
    name: SegmentName,
    original: Vec<u8>,
    made: Vec<u8>,
}

/// Takes a segment that is done.
pub type Writer<'a> = dyn FnMut(SegmentName, &[u8]) -> Result<(), Error> + 'a;

pub(super) struct Window<'a> {
    segments: &'a Arc<Segments>,
    identity: WalIdentity,
    newest: u32,
    loaded: BTreeMap<u64, Loaded>,
}

/// The page without anything but its header, if it is the one of that address.
pub(super) fn bare_page(original: &[u8], page: Lsn, identity: WalIdentity, made: &mut [u8]) {
    let Some(header) = PageHeader::parse(original) else { return };
    if header.magic != identity.version.magic() || header.address != page {
        return;
    }
    let size = header.size() as usize;
    if let (Some(from), Some(to)) = (original.get(..size), made.get_mut(..size)) {
        to.copy_from_slice(from);
        to.get_mut(HEADER_PADDING).into_iter().for_each(|padding| padding.fill(0));
    }
}

impl<'a> Window<'a> {
    pub(super) fn new(segments: &'a Arc<Segments>, identity: WalIdentity, newest: u32) -> Window<'a> {
        Window { segments, identity, newest, loaded: BTreeMap::new() }
    }

    fn size(&self) -> u64 {
        u64::from(self.identity.segment_size)
    }

    fn number(&self, lsn: Lsn) -> u64 {
        lsn.0 / self.size()
    }

    /// Adds a record's bytes, which may go on after the headers of pages; those in segments that are not at hand are left
    /// out.
    pub(super) fn put(&mut self, lsn: Lsn, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        self.each(lsn, bytes.len(), &mut |_, loaded, range| {
            let (now, later) = rest.split_at(range.len().min(rest.len()));
            loaded.made.get_mut(range).into_iter().for_each(|place| place.copy_from_slice(now));
            rest = later;
        })
    }

    /// At most so many bytes of a record as they are: those before `end`, and in segments at hand.
    pub(super) fn original(&mut self, lsn: Lsn, most: usize, end: Lsn) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.each(lsn, most, &mut |at, loaded, range| {
            if at < end {
                bytes.extend_from_slice(loaded.original.get(range).unwrap_or_default());
            }
        })?;
        Ok(bytes)
    }

    /// Goes through the places of a record's bytes, one page after the other, up to the end of the segments at hand.
    fn each(
        &mut self,
        lsn: Lsn,
        mut length: usize,
        found: &mut dyn FnMut(Lsn, &mut Loaded, std::ops::Range<usize>),
    ) -> Result<(), Error> {
        let (mut at, size) = (lsn, self.size());
        while length > 0 {
            let number = self.number(at);
            self.load(number)?;
            let Some(loaded) = self.loaded.get_mut(&number) else { return Ok(()) };
            let offset = at.offset_in(size) as usize;
            if at.offset_in(PAGE) == 0 {
                let header = loaded.original.get(offset..).and_then(PageHeader::parse);
                let usual = header_size_at(at, self.identity.segment_size);
                at = at.advance(u64::from(header.map_or(usual, |header| header.size())));
                continue;
            }
            let count = length.min((PAGE - at.offset_in(PAGE)) as usize);
            found(at, loaded, offset..offset + count);
            length -= count;
            at = at.advance(count as u64);
        }
        Ok(())
    }

    /// Loads the segments that hold something between two locations.
    pub(super) fn load_all(&mut self, from: Lsn, to: Lsn) -> Result<(), Error> {
        (self.number(from)..=self.number(Lsn(to.0.saturating_sub(1))))
            .try_for_each(|number| self.load(number))
    }

    fn load(&mut self, number: u64) -> Result<(), Error> {
        if self.loaded.contains_key(&number) {
            return Ok(());
        }
        let size = self.identity.segment_size;
        let start = Lsn(number.saturating_mul(u64::from(size)));
        let wanted = SegmentName::holding(start, self.newest, size);
        let Some(name) = self.segments.find(wanted, 1, size) else { return Ok(()) };
        let mut original = vec![0; size as usize];
        self.segments.open(name)?.fill(&mut original)?;
        let mut made = vec![0; size as usize];
        let mut page = start;
        for (from, to) in original.chunks(PAGE_SIZE as usize).zip(made.chunks_mut(PAGE_SIZE as usize)) {
            bare_page(from, page, self.identity, to);
            page = page.advance(PAGE);
        }
        self.loaded.insert(number, Loaded { name, original, made });
        Ok(())
    }

    /// What the header of the page at `page` says, if its segment is at hand.
    pub(super) fn header(&mut self, page: Lsn) -> Result<Option<PageHeader>, Error> {
        let number = self.number(page);
        self.load(number)?;
        let offset = page.offset_in(self.size()) as usize;
        Ok(self.loaded.get(&number).and_then(|loaded| PageHeader::parse(loaded.made.get(offset..)?)))
    }

    /// Blanks out everything from `end` on, headers of pages as well.
    pub(super) fn clear_from(&mut self, end: Lsn) {
        let (number, offset) = (self.number(end), end.offset_in(self.size()) as usize);
        for (_, loaded) in self.loaded.range_mut(number..) {
            let start = loaded.name.start(self.identity.segment_size).unwrap_or_default();
            let from = if start > end { 0 } else { offset };
            loaded.made.get_mut(from..).into_iter().for_each(|rest| rest.fill(0));
        }
    }

    /// Hands over the segments before the one that holds `lsn`; how many.
    pub(super) fn flush(&mut self, lsn: Lsn, write: &mut Writer<'_>) -> Result<u64, Error> {
        let number = self.number(lsn);
        let mut count = 0;
        while let Some(first) = self.loaded.first_entry().filter(|entry| *entry.key() < number) {
            let done = first.remove();
            write(done.name, &done.made)?;
            count += 1;
        }
        Ok(count)
    }
}
