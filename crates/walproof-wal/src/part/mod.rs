//! Parts of the WAL that are read separately, on other machines if need be, kept in files, and put together.
//!
//! A part is all bytes between two locations, and every byte belongs to one part. A record over an edge is in neither: the
//! part before it keeps how the record begins, the part after it how it goes on, with checksums that combine
//! (`edge`). [`join`] puts both together, counts the record once, and checks what a reader would have
//! checked that came along this way: place, cluster, timeline, the link to the record before, the continuation's
//! length, the checksum. It is associative, so parts can be joined in any grouping, as long as each follows the one before.
//!
//! Parts are counted by the one reader that counts the whole (`parallel`); `read` adds the edges, `join`
//! joins, `form` writes and reads a part as bytes.

mod form;
mod join;
mod read;

pub use join::join;

use std::sync::Arc;

use crate::accounting::Accounting;
use crate::edge::{Begun, Rest};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::pages::WalIdentity;
use crate::reader::{Finish, Range};
use crate::source::Segments;
use crate::stats::Stats;
use crate::tally::Tally;

/// What was counted of the WAL between two locations, and what its edges need of the WAL before and after it.
#[derive(Debug)]
pub struct Part {
    identity: WalIdentity,
    from: Lsn,
    /// Where the next part begins; where the WAL ends when there can be none.
    to: Lsn,
    /// Timelines of the page at `from` and of the last page that was looked at.
    timelines: (u32, u32),
    /// The newest timeline that was at hand, and might have been read.
    newest_timeline: u32,
    head: Head,
    /// What stands between the head and the first record.
    lead: Accounting,
    reach: Option<Reach>,
    /// What fills the bytes from the first record's beginning to the last one's end.
    accounting: Accounting,
    tally: Tally,
    /// What stands between the last record (without one, the head) and `tail` or `to`.
    pending: Accounting,
    tail: Option<Tail>,
    end: End,
}

/// Where the whole records are.
#[derive(Clone, Copy, Debug)]
struct Reach {
    first: Lsn,
    last: Lsn,
    end: Lsn,
    /// What the first record says is the record before.
    prev: Lsn,
}

/// What a part begins with.
#[derive(Clone, Debug)]
enum Head {
    /// A record, or nothing.
    Record,
    /// A page that says that the record before it was given up in a crash.
    Overwrite,
    /// The rest of a record.
    Rest { rest: Rest, headers: Accounting, end: RestEnd },
    /// The rest of a segment that a switch left unused.
    Unused,
}

/// How the rest of a record at the beginning of a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestEnd {
    /// With the record.
    Whole,
    /// With the part.
    Cut,
    /// With a page that says that the record was given up in a crash.
    GivenUp(Lsn),
    /// It ends with what is not a continuation.
    Broken,
    /// With the record, which may be a switch: nothing is here, up to the end of the segment.
    Switch(Lsn),
}

impl RestEnd {
    /// Whether it is not a record: of its rest only the length that it should have had is kept.
    fn is_lost(self) -> bool {
        matches!(self, RestEnd::GivenUp(_) | RestEnd::Broken)
    }
}

/// The record that begins in a part and does not end there.
#[derive(Clone, Debug)]
struct Tail {
    begun: Begun,
    /// Headers of the pages in it.
    headers: Accounting,
}

/// Why a part ends.
#[derive(Clone, Debug)]
enum End {
    /// The end that was asked for.
    Requested,
    /// The next segment is not at hand.
    LastSegment,
    /// The WAL ends there, in a reader's words. No part can follow.
    OfWal(String),
}

impl Part {
    /// Reads the part from the range's start to its end; without them, from the beginning of the first segment at hand to
    /// the end of the last one that follows, or of the WAL. Of the segment in which the part begins, what stands before
    /// it is looked at, too. Gaps are errors. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// As [`Stats::read`]; [`Error::PartBound`] for a start or end at which no record could begin.
    pub fn read(segments: impl Into<Arc<Segments>>, range: Range, threads: usize) -> Result<Part, Error> {
        read::read(segments.into(), range, threads)
    }

    /// The bytes of a file that holds the part.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        form::write(self)
    }

    /// The part in a file's bytes, whoever wrote them.
    ///
    /// # Errors
    /// [`Error::Part`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Part, Error> {
        form::read(bytes)
    }

    /// Version, cluster and segment size of the WAL.
    #[must_use]
    pub fn identity(&self) -> WalIdentity {
        self.identity
    }

    /// Where the part begins, and where the next one has to.
    #[must_use]
    pub fn bounds(&self) -> (Lsn, Lsn) {
        (self.from, self.to)
    }

    /// First and last record that lie in the part as a whole.
    #[must_use]
    pub fn records(&self) -> Option<(Lsn, Lsn)> {
        self.reach.map(|reach| (reach.first, reach.last))
    }

    /// Timelines of its first and its last page.
    #[must_use]
    pub fn timelines(&self) -> (u32, u32) {
        self.timelines
    }

    /// Whether a part may follow, because the WAL does not end here.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.end, End::OfWal(_))
    }

    /// The totals, as [`Stats::read`] would have given them of all that the part was joined from, and why reading ended.
    ///
    /// # Errors
    /// [`Error::NoRecord`] where that would have been one.
    pub fn into_stats(self) -> Result<(Stats, Finish), Error> {
        let finish = match &self.end {
            End::Requested => Finish::Requested,
            End::LastSegment => {
                let size = self.identity.segment_size;
                Finish::LastSegment { wanted: SegmentName::holding(self.to, self.newest_timeline, size) }
            }
            End::OfWal(said) => Finish::EndOfWal { reason: Error::Told { message: said.clone() } },
        };
        let from = self.from;
        let Some(reach) = self.reach else {
            let source = match finish {
                Finish::LastSegment { wanted } => {
                    Error::MissingSegment { segment: wanted, lsn: self.to, next: None }
                }
                Finish::EndOfWal { reason } => reason,
                Finish::Requested => return Ok((self.stats(from, from), finish)),
            };
            return Err(Error::NoRecord { start: from, source: Box::new(source) });
        };
        Ok((self.stats(reach.first, reach.end), finish))
    }

    fn stats(self, start: Lsn, end: Lsn) -> Stats {
        Stats {
            identity: self.identity,
            timeline: self.timelines.1,
            start,
            end,
            accounting: self.accounting,
            gaps: Vec::new(),
            tally: self.tally,
        }
    }

    /// The last record, as far as it is known: what the next one names as the one before.
    fn last(&self) -> Option<Lsn> {
        self.reach.map(|reach| reach.last)
    }

    /// Whether the part lies within one record, that begins before it and ends after it.
    fn is_inside(&self) -> bool {
        matches!(self.head, Head::Rest { end: RestEnd::Cut, .. })
    }

    /// Where an unused rest of a segment that continues after the part ends.
    fn unused_to(&self) -> Option<Lsn> {
        let end = match (self.reach, &self.head) {
            (Some(reach), _) => reach.end,
            (None, Head::Unused) => self.segment_end(self.from),
            (None, Head::Rest { end: RestEnd::Switch(at), .. }) => self.segment_end(*at),
            (None, _) => return None,
        };
        (end > self.to).then_some(end)
    }

    fn segment_end(&self, at: Lsn) -> Lsn {
        let size = u64::from(self.identity.segment_size);
        at.align_down(size).advance(size)
    }

    fn invalid(&self, what: Invalid) -> Error {
        let at = what.lsn().unwrap_or(self.to);
        let segment = SegmentName::holding(at, self.timelines.1, self.identity.segment_size);
        Error::Invalid { what, segment, previous: self.last() }
    }
}
