//! What can be wrong, in pg_waldump's words where it has some.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::lsn::{Lsn, SegmentName};
use crate::source::Locked;
use crate::version::PgVersion;

/// Why WAL could not be read. `Display` is one factual line; [`Error::detail`] and [`Error::hint`] add the
/// rest, with the meaning they have in PostgreSQL's messages.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is not an LSN.
    #[error("invalid LSN: \"{text}\"")]
    Lsn {
        /// What was given.
        text: String,
    },
    /// A file or folder that the operating system would not open or read.
    #[error("could not {action} \"{path}\": {}", reason(.source))]
    Io {
        /// What was tried: `open file`, `open directory`, `read from file`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A compressed file that could not be unpacked.
    #[error("could not unpack \"{path}\": {}", reason(.source))]
    Archive {
        /// The file.
        path: PathBuf,
        /// How it is compressed.
        format: String,
        /// Bytes of the segment that were unpacked before.
        position: u32,
        /// What the decompressor said.
        source: io::Error,
    },
    /// An encrypted file whose pass is not known.
    #[error("cannot read \"{path}\": it is encrypted, and {}", why.reason())]
    Encrypted {
        /// The file.
        path: PathBuf,
        /// What is missing.
        why: Locked,
    },
    /// Something that has a file's name but is not a file.
    #[error("could not open file \"{path}\": it is {what}")]
    NotAFile {
        /// Where it is.
        path: PathBuf,
        /// `a FIFO`, `a socket`, `a device`, `a directory`.
        what: &'static str,
    },
    /// Whoever waits for the pass has stopped it ([`Watch::stop`](crate::Watch::stop)).
    #[error("interrupted")]
    Interrupted,
    /// A file given by name whose name is not a segment's.
    #[error("file \"{path}\" is not a WAL segment")]
    NotASegment {
        /// The file.
        path: PathBuf,
    },
    /// A timeline history that PostgreSQL would not read.
    #[error("invalid timeline history \"{path}\"")]
    History {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A folder or list without a WAL segment in it.
    #[error("could not find any WAL file in \"{path}\"")]
    NoSegments {
        /// The folder, or the first file of the list.
        path: PathBuf,
    },
    /// No file holds the WAL at a location that has to be read.
    #[error("could not find WAL segment {segment} for {lsn}")]
    MissingSegment {
        /// The segment's name on the newest timeline allowed.
        segment: SegmentName,
        /// The location that was wanted.
        lsn: Lsn,
        /// The next segment that does exist, when there is one: then WAL is missing in between.
        next: Option<SegmentName>,
    },
    /// A file that is not a part of WAL, or a damaged one.
    #[error("invalid part of WAL: {what}")]
    Part {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A part of WAL that does not begin where another ends, or that cannot follow it.
    #[error("the part of WAL from {lsn} on does not follow: {what}")]
    NotFollowing {
        /// Where the part begins.
        lsn: Lsn,
        /// What does not fit.
        what: &'static str,
        /// What would have followed.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A part of WAL that would begin or end where no record can.
    #[error("a part of WAL cannot begin or end at {lsn}")]
    PartBound {
        /// The location.
        lsn: Lsn,
    },
    /// What another reader said; only its words are known.
    #[error("{message}")]
    Told {
        /// Its words.
        message: String,
    },
    /// WAL that arrives does not follow what arrived before.
    #[error("WAL from {expected} to {got} is missing")]
    Hole {
        /// Where what arrived before ends.
        expected: Lsn,
        /// Where what arrives now begins.
        got: Lsn,
    },
    /// WAL that arrives can only continue on a newer timeline.
    #[error("timeline {got} is not newer than timeline {latest}")]
    OldTimeline {
        /// The timeline that was asked for.
        got: u32,
        /// The timeline of the WAL before.
        latest: u32,
    },
    /// A range that ends before it starts.
    #[error("start WAL location {start} is after end WAL location {end}")]
    EmptyRange {
        /// Where reading was to begin.
        start: Lsn,
        /// Where it was to end.
        end: Lsn,
    },
    /// No record begins at or after the start.
    #[error("could not find a valid record after {start}")]
    NoRecord {
        /// Where reading was to begin.
        start: Lsn,
        /// What was found instead.
        source: Box<Error>,
    },
    /// Bytes that are not what PostgreSQL writes.
    #[error("{what}")]
    Invalid {
        /// What is wrong, and where.
        what: Invalid,
        /// The segment that was being read.
        segment: SegmentName,
        /// The last record that was in order, if any was read.
        previous: Option<Lsn>,
    },
}

/// What the operating system said, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.as_str(), |(said, _)| said).to_owned()
}

/// A damaged page, record or block reference. The wording is that of src/backend/access/transam/xlogreader.c,
/// so that it can be searched for; every message names its location.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields are those of the message, which is their documentation
pub enum Invalid {
    #[error("invalid magic number {got:04X} in WAL segment {segment}, LSN {lsn}, offset {offset}")]
    Magic { got: u16, segment: SegmentName, lsn: Lsn, offset: u32 },
    #[error(
        "WAL segment {segment} is of a pre-release of PostgreSQL {version}: its magic number is {got:04X}, expected {:04X}",
        version.magic()
    )]
    PreRelease { got: u16, version: PgVersion, segment: SegmentName },
    #[error("invalid info bits {got:04X} in WAL segment {segment}, LSN {lsn}, offset {offset}")]
    PageInfo { got: u16, segment: SegmentName, lsn: Lsn, offset: u32 },
    #[error("unexpected pageaddr {got} in WAL segment {segment}, LSN {lsn}, offset {offset}")]
    PageAddress { got: Lsn, segment: SegmentName, lsn: Lsn, offset: u32 },
    #[error(
        "out-of-sequence timeline ID {got} (after {latest}) in WAL segment {segment}, LSN {lsn}, offset {offset}"
    )]
    Timeline { got: u32, latest: u32, segment: SegmentName, lsn: Lsn, offset: u32 },
    #[error(
        "WAL file is from different database system: system identifier is {got} at {lsn}, expected {expected}"
    )]
    SystemIdentifier { got: u64, expected: u64, lsn: Lsn },
    #[error(
        "WAL file is from different database system: incorrect segment size in page header at {lsn}: \
         expected {expected}, got {got}"
    )]
    SegmentSize { got: u32, expected: u32, lsn: Lsn },
    #[error("invalid WAL segment size in WAL segment {segment} ({got} bytes)")]
    SegmentSizeRange { got: u32, segment: SegmentName },
    #[error("incorrect XLOG_BLCKSZ in page header at {lsn}: expected {expected}, got {got}")]
    BlockSize { got: u32, expected: u32, lsn: Lsn },
    #[error("could not read WAL segment {segment}, offset {offset}: read {got} of {expected}")]
    ShortRead { segment: SegmentName, offset: u32, got: usize, expected: usize },
    #[error("invalid record offset at {lsn}: expected at least {expected}, got {got}")]
    RecordOffset { lsn: Lsn, expected: u32, got: u32 },
    #[error("contrecord is requested by {lsn}")]
    ContrecordRequested { lsn: Lsn },
    #[error("invalid record length at {lsn}: expected at least {expected}, got {got}")]
    RecordLength { lsn: Lsn, expected: u32, got: u32 },
    #[error("record length {got} at {lsn} too long")]
    RecordTooLong { lsn: Lsn, got: u32 },
    #[error("invalid resource manager ID {got} at {lsn}")]
    ResourceManager { lsn: Lsn, got: u8 },
    #[error("record with incorrect prev-link {got} at {lsn}")]
    PrevLink { lsn: Lsn, got: Lsn },
    #[error("there is no contrecord flag at {lsn}")]
    NoContrecord { lsn: Lsn },
    #[error("invalid contrecord length {got} (expected {expected}) at {lsn}")]
    ContrecordLength { lsn: Lsn, got: u32, expected: u32 },
    #[error("incorrect resource manager data checksum in record at {lsn}")]
    Checksum { lsn: Lsn },
    #[error("out-of-order block_id {got} at {lsn}")]
    BlockIdOrder { lsn: Lsn, got: u8 },
    #[error("invalid block_id {got} at {lsn}")]
    BlockId { lsn: Lsn, got: u8 },
    #[error("BKPBLOCK_HAS_DATA set, but no data included at {lsn}")]
    BlockDataMissing { lsn: Lsn },
    #[error("BKPBLOCK_HAS_DATA not set, but data length is {got} at {lsn}")]
    BlockDataUnexpected { lsn: Lsn, got: u16 },
    #[error("BKPBLOCK_SAME_REL set but no previous rel at {lsn}")]
    NoPreviousRelation { lsn: Lsn },
    #[error(
        "BKPIMAGE_HAS_HOLE set, but hole offset {hole_offset} length {hole_length} \
         block image length {length} at {lsn}"
    )]
    Hole { lsn: Lsn, hole_offset: u16, hole_length: u16, length: u16 },
    #[error("BKPIMAGE_HAS_HOLE not set, but hole offset {hole_offset} length {hole_length} at {lsn}")]
    NoHole { lsn: Lsn, hole_offset: u16, hole_length: u16 },
    #[error("BKPIMAGE_COMPRESSED set, but block image length {length} at {lsn}")]
    Compressed { lsn: Lsn, length: u16 },
    #[error("record with invalid length at {lsn}")]
    RecordData { lsn: Lsn },
}

impl Invalid {
    /// Whether the bytes are WAL, only not of this cluster and version: then they are neither the end of the WAL
    /// nor a segment that the server recycled.
    pub(crate) fn is_foreign(&self) -> bool {
        match self {
            Invalid::SystemIdentifier { .. } | Invalid::SegmentSize { .. } | Invalid::PreRelease { .. } => {
                true
            }
            Invalid::Magic { got, .. } => PgVersion::from_magic(*got).is_some(),
            _ => false,
        }
    }

    /// Where the damage is: the record's location for damage to a record, the page's for damage to a page.
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        match *self {
            Invalid::SegmentSizeRange { .. } | Invalid::ShortRead { .. } | Invalid::PreRelease { .. } => None,
            Invalid::Magic { lsn, .. }
            | Invalid::PageInfo { lsn, .. }
            | Invalid::PageAddress { lsn, .. }
            | Invalid::Timeline { lsn, .. }
            | Invalid::SystemIdentifier { lsn, .. }
            | Invalid::SegmentSize { lsn, .. }
            | Invalid::BlockSize { lsn, .. }
            | Invalid::RecordOffset { lsn, .. }
            | Invalid::ContrecordRequested { lsn }
            | Invalid::RecordLength { lsn, .. }
            | Invalid::RecordTooLong { lsn, .. }
            | Invalid::ResourceManager { lsn, .. }
            | Invalid::PrevLink { lsn, .. }
            | Invalid::NoContrecord { lsn }
            | Invalid::ContrecordLength { lsn, .. }
            | Invalid::Checksum { lsn }
            | Invalid::BlockIdOrder { lsn, .. }
            | Invalid::BlockId { lsn, .. }
            | Invalid::BlockDataMissing { lsn }
            | Invalid::BlockDataUnexpected { lsn, .. }
            | Invalid::NoPreviousRelation { lsn }
            | Invalid::Hole { lsn, .. }
            | Invalid::NoHole { lsn, .. }
            | Invalid::Compressed { lsn, .. }
            | Invalid::RecordData { lsn } => Some(lsn),
        }
    }
}

impl Error {
    /// Facts behind the message: which segment, which record came before, what was found.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Error::Invalid { segment, previous, .. } => Some(match previous {
                Some(lsn) => format!("segment {segment}, previous record at {lsn}"),
                None => format!("segment {segment}, no record read before"),
            }),
            Error::NoRecord { source, .. } => Some(source.to_string()),
            Error::Archive { format, position, .. } => {
                Some(format!("{format} archive, unreadable after byte {position} of the segment"))
            }
            Error::History { line, text, .. } => Some(format!("line {line}: {text}")),
            Error::NotFollowing { expected, got, .. } => Some(format!("expected {expected}, got {got}")),
            Error::MissingSegment { next: Some(next), .. } => {
                Some(format!("the next segment at hand is {next}"))
            }
            _ => None,
        }
    }

    /// What to do about it, possibly wrong.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Lsn { .. } => Some("An LSN looks like 0/3A0001F8: two hexadecimal numbers.".to_owned()),
            Error::Archive { source, .. } if source.kind() == io::ErrorKind::OutOfMemory => Some(
                "No archiver needs a window of more than 128 MB for a segment. If the file is yours and in order, unpack \
                 it with its own tool."
                    .to_owned(),
            ),
            Error::Archive { .. } => {
                Some("The archived file is damaged or incomplete: fetch another copy of it.".to_owned())
            }
            Error::NotAFile { .. } => Some("WAL is read from regular files.".to_owned()),
            Error::Encrypted { why: Locked::NoRepository | Locked::NoKey, .. } => Some(
                "Give a pgBackRest repository as it is; what other tools encrypt, they have to restore.".to_owned(),
            ),
            Error::Encrypted { .. } => Some(
                "Set PGBACKREST_REPO1_CIPHER_PASS, or PGBACKREST_CONFIG to a file that has repo1-cipher-pass."
                    .to_owned(),
            ),
            Error::Hole { .. } => Some("Begin again at the later location: what recovery has to do is then known from a later checkpoint on.".to_owned()),
            Error::History { .. } => {
                Some("Lines are: timeline, location where it was left, reason; oldest first.".to_owned())
            }
            Error::NoSegments { .. } | Error::NotASegment { .. } => {
                Some("WAL segments have names of 24 hexadecimal digits; a server's are in pg_wal.".to_owned())
            }
            Error::MissingSegment { next: Some(_), .. } => Some(
                "WAL is missing in between: fetch it from the archive, or go on after it with --allow-gaps."
                    .to_owned(),
            ),
            Error::MissingSegment { next: None, lsn, .. } => {
                Some(format!("The WAL at hand ends there: end at {lsn} or before."))
            }
            Error::Part { .. } => {
                Some("Read it again with \"walproof wal part\", of the same version of walproof.".to_owned())
            }
            Error::NotFollowing { .. } => Some(
                "Give all parts of one reading, in the order of their WAL, each beginning where the one before ends."
                    .to_owned(),
            ),
            Error::PartBound { .. } => Some("Records begin at multiples of 8.".to_owned()),
            Error::NoRecord { .. } => {
                Some("The segment may have been recycled, or the location may not have been written yet.".to_owned())
            }
            Error::Invalid { what: Invalid::Magic { got, .. }, previous: Some(_), .. }
                if PgVersion::from_magic(*got).is_some() =>
            {
                let version = PgVersion::from_magic(*got).map_or(0, PgVersion::major);
                Some(format!(
                    "That segment was written by PostgreSQL {version}, those before by another version."
                ))
            }
            Error::Invalid { what: Invalid::PreRelease { version, .. }, .. } => {
                let read = match version {
                    PgVersion::V19 => "19 as its first release candidate writes it".to_owned(),
                    version => format!("{version} as released"),
                };
                Some(format!(
                    "Betas may write WAL in formats of their own, which only their own pg_waldump reads. walproof reads \
                     PostgreSQL {read}. If the server was a released one, this page is damaged."
                ))
            }
            Error::Invalid { what: Invalid::SystemIdentifier { .. }, .. } => {
                Some("WAL of two clusters is mixed: give the folder of one of them.".to_owned())
            }
            Error::Invalid { what: Invalid::Magic { .. }, .. } => Some(
                "WAL of PostgreSQL 13 (D106) to 19 (D122) can be read; 0000 is an unused segment.".to_owned(),
            ),
            Error::Invalid { previous: Some(_), what, .. } => what.lsn().map(|lsn| {
                format!(
                    "The WAL may end here, or the segment may be recycled; ending at {lsn} stops before it."
                )
            }),
            _ => None,
        }
    }
}
