//! What can be wrong with a file of WAL.

use crate::error::{Error, Invalid};
use crate::lsn::Lsn;

/// Which kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A page's header.
    Page,
    /// A record's header.
    Record,
    /// A record's link to the one before.
    Link,
    /// Pages disagree about a record that goes on from one to the next.
    Continuation,
    /// A record's checksum.
    Checksum,
    /// A record's parts do not add up, though its checksum is right: a server wrote it so.
    Structure,
    /// The file ends before the segment does.
    Truncated,
    /// The file goes on after the segment ends.
    TooLong,
    /// The file cannot be unpacked.
    Unpack,
    /// The operating system does not let the file be read.
    Unreadable,
    /// The file is encrypted.
    Encrypted,
}

impl Cause {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Page => "page",
            Cause::Record => "record",
            Cause::Link => "link",
            Cause::Continuation => "continuation",
            Cause::Checksum => "checksum",
            Cause::Structure => "structure",
            Cause::Truncated => "truncated",
            Cause::TooLong => "too long",
            Cause::Unpack => "unpack",
            Cause::Unreadable => "unreadable",
            Cause::Encrypted => "encrypted",
        }
    }

    /// That of an error of the decoder.
    #[must_use]
    pub fn of(what: &Invalid) -> Cause {
        match what {
            Invalid::Magic { .. }
            | Invalid::PreRelease { .. }
            | Invalid::PageInfo { .. }
            | Invalid::PageAddress { .. }
            | Invalid::Timeline { .. }
            | Invalid::SystemIdentifier { .. }
            | Invalid::SegmentSize { .. }
            | Invalid::SegmentSizeRange { .. }
            | Invalid::BlockSize { .. } => Cause::Page,
            Invalid::ShortRead { .. } => Cause::Truncated,
            Invalid::RecordOffset { .. }
            | Invalid::RecordLength { .. }
            | Invalid::RecordTooLong { .. }
            | Invalid::ResourceManager { .. } => Cause::Record,
            Invalid::PrevLink { .. } => Cause::Link,
            Invalid::ContrecordRequested { .. }
            | Invalid::NoContrecord { .. }
            | Invalid::ContrecordLength { .. } => Cause::Continuation,
            Invalid::Checksum { .. } => Cause::Checksum,
            Invalid::BlockIdOrder { .. }
            | Invalid::BlockId { .. }
            | Invalid::BlockDataMissing { .. }
            | Invalid::BlockDataUnexpected { .. }
            | Invalid::NoPreviousRelation { .. }
            | Invalid::Hole { .. }
            | Invalid::NoHole { .. }
            | Invalid::Compressed { .. }
            | Invalid::RecordData { .. } => Cause::Structure,
        }
    }
}

/// Something wrong at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which kind.
    pub cause: Cause,
    /// Where: the record, or the page.
    pub lsn: Lsn,
    /// Offset of that in the segment.
    pub offset: u64,
    /// Where records go on in this segment; None for its end, and for what concerns the file.
    pub resumes: Option<Lsn>,
    /// In pg_waldump's words, as far as it has some.
    pub message: String,
}

impl Fault {
    /// A page or record that is wrong, in the segment that begins at `start`.
    pub(super) fn invalid(what: &Invalid, at: Lsn, start: Lsn) -> Fault {
        let lsn = what.lsn().unwrap_or(at);
        Fault { cause: Cause::of(what), lsn, offset: lsn - start, resumes: None, message: what.to_string() }
    }

    /// A file that cannot be read on from `offset`.
    pub(super) fn of_file(cause: Cause, start: Lsn, offset: u64, message: String) -> Fault {
        Fault { cause, lsn: start.advance(offset), offset, resumes: None, message }
    }

    /// What opening or reading a file failed with.
    pub(super) fn error(error: &Error, start: Lsn, offset: u64) -> Fault {
        let cause = match error {
            Error::Archive { .. } => Cause::Unpack,
            Error::Encrypted { .. } => Cause::Encrypted,
            _ => Cause::Unreadable,
        };
        Fault::of_file(cause, start, offset, error.to_string())
    }
}
