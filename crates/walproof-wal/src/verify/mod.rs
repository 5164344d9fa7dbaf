//! Verifies segments separately: what is in order in each file, what is not and where, and what its edges
//! need from the files before and after it.
//!
//! A [`Reader`](crate::Reader) follows one chain and stops at what is wrong. Here every file is read to its end, in
//! any order and on any core; after damage the records go on at the next page that is in order, because a page says
//! where its first record begins. A record that begins in one segment and ends in the next is kept as two edges of
//! fixed size ([`Begun`], [`Rest`]), whose checksums can be put together (`crc32c_combine`): so facts about files that
//! were read last night fit those that are read today.

mod fault;
mod file;
mod walk;

pub use crate::edge::{join, Begun, Joined, Rest};
pub use fault::{Cause, Fault};
pub use file::{probe, read_text, verify_file, verify_files, Request};

use crate::lsn::Lsn;
use crate::version::PgVersion;

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Bytes of the segment, unpacked; at most a little more than a segment has.
    pub bytes: u64,
    /// The SHA-1 of those bytes, if it was wanted and they could all be read.
    pub sha1: Option<[u8; 20]>,
    /// Version by the magic number of the first page that has one.
    pub version: Option<PgVersion>,
    /// System identifier of the first page, if that has one.
    pub system_identifier: Option<u64>,
    /// Where the pages belong, if not where the file's name says: the file has a wrong name, or was recycled.
    pub address: Option<Lsn>,
    /// Timelines of the first and the last page that are in order.
    pub timelines: Option<(u32, u32)>,
    /// What the segment begins with.
    pub head: Head,
    /// The record that begins in this segment and goes on in the next.
    pub tail: Option<Begun>,
    /// Records that follow from each other, in order of place. More than one only where something is wrong.
    pub stretches: Vec<Stretch>,
    /// What is wrong, in order of place. Behind each of them the segment goes on.
    pub faults: Vec<Fault>,
    /// What is not a record and has nothing after it: the end of the WAL, or damage. None if the segment is
    /// full.
    pub end: Option<Fault>,
    /// Whether after `end` there are only zeros and pages of older WAL, as a server leaves them.
    pub is_clean_end: bool,
}

/// What a segment begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Head {
    /// It cannot be told.
    #[default]
    Broken,
    /// A record.
    Record,
    /// The rest of a record that begins before.
    Rest(Rest),
    /// A record in the place of the rest of one that was given up after a crash.
    Overwrite,
}

/// Records that follow from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Where the first record begins; the segment's first byte if nothing is wrong before.
    pub start: Lsn,
    /// Where the record after the last one begins, or would.
    pub end: Lsn,
    /// First record, and the location of the one before that it names.
    pub first: Option<(Lsn, Lsn)>,
    /// Last record that ends here.
    pub last: Option<Lsn>,
    /// Records that end here.
    pub records: u64,
    /// Earliest and latest end of a transaction, in microseconds since 1970.
    pub times: Option<(i64, i64)>,
    /// Records that switch to another timeline: location, timeline from then on, timeline before.
    pub switches: Vec<(Lsn, u32, u32)>,
}
