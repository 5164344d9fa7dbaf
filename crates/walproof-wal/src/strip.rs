//! Segments without what is in the tables: the same records at the same locations, with their images and the data of
//! their blocks blanked out and their checksums made again.
//!
//! Sizes, pages, transactions and times stay, which is all that totals and simulations need, and a blank image
//! takes next to nothing once it is compressed. So parts of a recording can be stripped apart, where they are, and put together
//! elsewhere.

use std::collections::BTreeMap;
use std::ops::Range as Bytes;
use std::sync::Arc;

use crate::error::Error;
use crate::lsn::{Lsn, SegmentName};
use crate::page::{header_size_at, PAGE_SIZE};
use crate::reader::{Finish, Range, Reader};
use crate::record::{checksum, Record};
use crate::source::Segments;

/// Of an image that is not compressed, the page's header stays: it tells how full the page was.
const PAGE_HEADER: usize = 24;
/// Of what Heap and Heap2 keep apart from blocks, the first bytes: counts and flags. Behind them may be the old row.
const HEAP_MAIN_DATA: usize = 8;
const CRC: Bytes<usize> = 20..24;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripped {
    /// Segments.
    pub segments: u64,
    /// Records whose contents were blanked out.
    pub records: u64,
    /// Bytes that are zero now.
    pub blanked_bytes: u64,
}

/// Takes a segment that is done.
pub type Writer<'a> = dyn FnMut(SegmentName, &[u8]) -> Result<(), Error> + 'a;

/// Strips every record of the segments that is there from its beginning to its end, and hands over segment after
/// segment. A record that goes on in a segment that is not at hand stays as it is, so that parts fit together.
///
/// # Errors
/// As [`Reader::next_record`]; and what `write` says.
pub fn strip(
    segments: &Arc<Segments>,
    timeline: Option<u32>,
    write: &mut Writer<'_>,
) -> Result<Stripped, Error> {
    let mut reader = Reader::open(Arc::clone(segments), Range { timeline, ..Range::default() })?;
    let size = reader.identity().segment_size;
    let newest = timeline.or_else(|| segments.names().map(|name| name.timeline).max()).unwrap_or(1);
    let mut window = Window { segments, size, newest, loaded: BTreeMap::new() };
    let mut stripped = Stripped::default();
    // Before its first record a segment may hold the end of one that begins in a segment that is elsewhere.
    let first = segments.names().find(|name| name.timeline <= newest).and_then(|name| name.start(size));
    window.load_all(first.unwrap_or(reader.first_lsn()), reader.first_lsn())?;
    while let Some(record) = reader.next_record()? {
        let (lsn, end) = (record.lsn, record.end);
        let (bytes, blanked) = blank(&record);
        stripped.records += 1;
        stripped.blanked_bytes += blanked;
        stripped.segments += window.flush(lsn, write)?;
        window.put(lsn, end, &bytes)?;
    }
    let (end, finish) = (reader.end_lsn(), reader.into_finish());
    match finish {
        Finish::LastSegment { wanted } => window.load_all(end, wanted.start(size).unwrap_or(end))?,
        _ => window.clear_behind(end),
    }
    stripped.segments += window.flush(Lsn(u64::MAX), write)?;
    Ok(stripped)
}

/// The record with its contents blanked out, and how many bytes these are.
fn blank(record: &Record<'_>) -> (Vec<u8>, u64) {
    let mut bytes = record.bytes().to_vec();
    let mut blanked = 0;
    let mut clear = |range: Bytes<usize>| {
        if let Some(part) = bytes.get_mut(range) {
            blanked += part.len() as u64;
            part.fill(0);
        }
    };
    for block in record.blocks {
        let image = block.image_range();
        let is_plain = block.image.is_some_and(|image| image.compression.is_none());
        let kept = if is_plain { PAGE_HEADER.min(image.len()) } else { 0 };
        clear(image.start + kept..image.end);
        clear(block.data_range());
    }
    let end = record.bytes().len();
    let main = end - record.main_data.len();
    match record.header.rmgr.0 {
        // XLOG to Standby, CommitTs, ReplicationOrigin: checkpoints, ends of transactions, files.
        0..=8 | 18 | 19 => {}
        9 | 10 => clear((main + HEAP_MAIN_DATA).min(end)..end),
        // Index records may hold entries, messages anything.
        _ => clear(main..end),
    }
    if let (Some(crc), Some(field)) = (checksum(&bytes), bytes.get_mut(CRC)) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
    (bytes, blanked)
}

/// The segments that are being written to.
struct Window<'a> {
    segments: &'a Arc<Segments>,
    size: u32,
    newest: u32,
    loaded: BTreeMap<u64, (SegmentName, Vec<u8>)>,
}

impl Window<'_> {
    fn number(&self, lsn: Lsn) -> u64 {
        lsn.0 / u64::from(self.size)
    }

    /// Overwrites the record's bytes, which may go on behind the headers of pages.
    fn put(&mut self, lsn: Lsn, end: Lsn, mut bytes: &[u8]) -> Result<(), Error> {
        self.load_all(lsn, end)?;
        let mut at = lsn;
        while !bytes.is_empty() {
            let within = at.0 % u64::from(PAGE_SIZE);
            if within == 0 {
                at = at.advance(u64::from(header_size_at(at, self.size)));
                continue;
            }
            let (number, offset) = (self.number(at), (at.0 % u64::from(self.size)) as usize);
            let count = bytes.len().min((u64::from(PAGE_SIZE) - within) as usize);
            let (now, later) = bytes.split_at(count);
            if let Some((_, segment)) = self.loaded.get_mut(&number) {
                if let Some(place) = segment.get_mut(offset..offset + count) {
                    place.copy_from_slice(now);
                }
            }
            bytes = later;
            at = at.advance(count as u64);
        }
        Ok(())
    }

    /// Loads the segments that hold something between two locations.
    fn load_all(&mut self, from: Lsn, to: Lsn) -> Result<(), Error> {
        (self.number(from)..=self.number(Lsn(to.0.saturating_sub(1))))
            .try_for_each(|number| self.load(number))
    }

    fn load(&mut self, number: u64) -> Result<(), Error> {
        if self.loaded.contains_key(&number) {
            return Ok(());
        }
        let lsn = Lsn(number * u64::from(self.size));
        let wanted = SegmentName::holding(lsn, self.newest, self.size);
        let Some(name) = self.segments.find(wanted, 1, self.size) else { return Ok(()) };
        let mut bytes = vec![0; self.size as usize];
        self.segments.open(name)?.fill(&mut bytes)?;
        self.loaded.insert(number, (name, bytes));
        Ok(())
    }

    /// Blanks out what follows the last record.
    fn clear_behind(&mut self, end: Lsn) {
        let offset = (end.0 % u64::from(self.size)) as usize;
        if let Some((_, segment)) = self.loaded.get_mut(&self.number(end)) {
            if let Some(rest) = segment.get_mut(offset..) {
                rest.fill(0);
            }
        }
    }

    /// Hands over the segments before the one that holds `lsn`; how many.
    fn flush(&mut self, lsn: Lsn, write: &mut Writer<'_>) -> Result<u64, Error> {
        let number = self.number(lsn);
        let mut count = 0;
        while let Some(first) = self.loaded.first_entry().filter(|entry| *entry.key() < number) {
            let (name, bytes) = first.remove();
            write(name, &bytes)?;
            count += 1;
        }
        Ok(count)
    }
}
