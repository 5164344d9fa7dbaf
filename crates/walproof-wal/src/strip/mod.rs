//! Segments without what is in the tables: the same records at the same locations, without contents and with their
//! checksums made again.
//!
//! Sizes, pages, transactions and times stay, which is all that totals and simulations need, and a blank segment
//! takes next to nothing once it is compressed. A segment begins as zeros with the headers of its pages, and only what
//! `blank` keeps of a record is added: what is not in a record (the rest of a segment after a switch, what follows the
//! end, padding) is never copied. Of a record that a crash cut off, the header stays. Parts of a recording can be stripped apart,
//! where they are, and put together elsewhere (`seam`).

mod blank;
mod reduced;
mod seam;
mod stream;
mod window;

use std::sync::Arc;

use crate::error::Error;
use crate::lsn::Lsn;
use crate::page::{LONG_HEADER_SIZE, PAGE_SIZE, SHORT_HEADER_SIZE};
use crate::reader::{Finish, Range, Reader};
use crate::record::{Record, HEADER_SIZE, MAX_LENGTH};
use crate::source::Segments;

use blank::blank;
pub use reduced::{reduced, Reduced};
pub use stream::Stream;
use window::Window;
pub use window::Writer;

const PAGE: u64 = PAGE_SIZE as u64;

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

/// Shown each record before its contents are blanked out.
pub type Look<'a> = dyn FnMut(&Record<'_>) + 'a;

/// Strips every record of the segments, shows it to `look` before, and hands over segment after segment. Of a record
/// that goes on in a segment that is not at hand, what stays fits what stays of its other part.
///
/// # Errors
/// As [`Reader::next_record`]; and what `write` says.
pub fn strip(
    segments: &Arc<Segments>,
    timeline: Option<u32>,
    look: &mut Look<'_>,
    write: &mut Writer<'_>,
) -> Result<Stripped, Error> {
    let mut reader = Reader::open(Arc::clone(segments), Range { timeline, ..Range::default() })?;
    // Once as records, once as pages.
    reader.announce(2);
    let identity = reader.identity();
    let newest = timeline.or_else(|| segments.names().map(|name| name.timeline).max()).unwrap_or(1);
    let mut window = Window::new(segments, identity, newest);
    let mut stripped = Stripped::default();
    // Not the first segment at hand: one whose first page cannot be understood is passed over.
    let mut before = reader.first_lsn();
    let mut is_first = true;
    while let Some(record) = reader.next_record()? {
        look(&record);
        let (lsn, end, prev) = (record.lsn, record.end, record.header.prev);
        let (bytes, blanked) = blank(&record);
        stripped.records += 1;
        stripped.blanked_bytes += blanked;
        window.load_all(before, lsn)?;
        if std::mem::take(&mut is_first) {
            join(&mut window, before, lsn, prev, identity.segment_size)?;
        }
        keep_headers(&mut window, &reader.take_given_up())?;
        stripped.segments += window.flush(lsn, write)?;
        window.put(lsn, &bytes)?;
        before = end;
    }
    let given_up = reader.take_given_up();
    let (end, finish) = (reader.end_lsn(), reader.into_finish());
    match finish {
        Finish::LastSegment { wanted } => {
            let there = wanted.start(identity.segment_size).unwrap_or(end);
            if end < there {
                window.load_all(end, there)?;
                keep_headers(&mut window, &given_up)?;
                // The record that goes on there begins after those that were given up.
                let begin = given_up.last().map_or(end, |(_, page)| *page);
                let bytes = window.original(begin, MAX_LENGTH as usize, there)?;
                window.put(begin, &seam::head(&bytes, begin, identity.version))?;
            }
        }
        _ => window.clear_from(end),
    }
    stripped.segments += window.flush(Lsn(u64::MAX), write)?;
    Ok(stripped)
}

/// Of records that a crash cut off, the headers stay, which readers pass over by: as far as they are before the page that
/// goes on.
fn keep_headers(window: &mut Window<'_>, given_up: &[(Lsn, Lsn)]) -> Result<(), Error> {
    for &(lsn, page) in given_up {
        let mut header = window.original(lsn, HEADER_SIZE, page)?;
        for unneeded in [blank::PADDING, blank::CRC] {
            header.get_mut(unneeded).into_iter().for_each(|field| field.fill(0));
        }
        window.put(lsn, &header)?;
    }
    Ok(())
}

/// Makes the end, at `start`, of a record that begins in a segment which is not at hand; the record after it is at
/// `next`, and names the beginning, `prev`.
fn join(window: &mut Window<'_>, start: Lsn, next: Lsn, prev: Lsn, segment_size: u32) -> Result<(), Error> {
    let Some(header) = window.header(start)?.filter(|header| header.first_is_contrecord()) else {
        return Ok(());
    };
    let bytes = window.original(start, header.remaining.min(MAX_LENGTH) as usize, next)?;
    if bytes.len() != header.remaining as usize || prev >= start {
        // It was given up before its end, or leads nowhere.
        return Ok(());
    }
    window.put(start, &seam::tail(&bytes, record_bytes(prev, start, segment_size), header.remaining))
}

/// Bytes of records from one of them to the beginning of a segment: without the headers of pages.
fn record_bytes(from: Lsn, to: Lsn, segment_size: u32) -> u64 {
    let begun = |unit: u64| (to.0 / unit).saturating_sub(1).saturating_sub(from.0 / unit);
    let short = u64::from(SHORT_HEADER_SIZE);
    let headers =
        begun(PAGE) * short + begun(u64::from(segment_size)) * (u64::from(LONG_HEADER_SIZE) - short);
    (to - from).saturating_sub(headers)
}
