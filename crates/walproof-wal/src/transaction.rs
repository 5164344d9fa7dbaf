//! What the records of resource managers XLOG and Transaction say about time: checkpoints and commits.
//!
//! ```text
//! offset  bytes  field (CheckPoint, src/include/catalog/pg_control.h)
//!      0      8  redo            redo point
//!      8      4  ThisTimeLineID
//!     12      4  PrevTimeLineID
//!     16      1  fullPageWrites
//!     20      4  wal_level       from 17; padding before
//!     24      8  logicalDecodingEnabled, from 19; not there before
//!     24     40  next and oldest transaction, OID and multixact counters; from 19 at 32
//!     64      8  time            seconds since 1970; from 19 at 72
//! ```
//!
//! Commit and abort records begin with the time, in microseconds since 2000-01-01 (`xl_xact_commit`,
//! src/include/access/xact.h). None of these records refers to a block, so that their main data follows their header.

use crate::bytes::Bytes;
use crate::lsn::Lsn;
use crate::record::Record;
use crate::rmgr::RmgrId;
use crate::version::PgVersion;

/// Seconds from the Unix epoch to PostgreSQL's, 2000-01-01.
const POSTGRES_EPOCH_S: i64 = 946_684_800;

/// What kind of checkpoint it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// While the server ran.
    Online,
    /// At shutdown, or at the end of recovery: its redo point is its own location.
    Shutdown,
}

/// A checkpoint record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where the record is: the checkpoint was complete then.
    pub lsn: Lsn,
    /// Where recovery would start: the checkpoint began then.
    pub redo: Lsn,
    /// What kind.
    pub kind: CheckpointKind,
    /// Timeline.
    pub timeline: u32,
    /// When it began, in seconds since 1970.
    pub time_unix_s: i64,
}

impl Checkpoint {
    /// The checkpoint that a record tells of, if it does.
    #[must_use]
    pub fn from_record(record: &Record<'_>) -> Option<Checkpoint> {
        if record.header.rmgr != RmgrId::XLOG || !record.blocks.is_empty() {
            return None;
        }
        let kind = match record.operation().code() {
            0x0 => CheckpointKind::Shutdown,
            0x1 => CheckpointKind::Online,
            _ => return None,
        };
        let mut bytes = Bytes(record.main_data);
        let redo = Lsn(bytes.u64()?);
        let timeline = bytes.u32()?;
        bytes.skip(if record.version < PgVersion::V19 { 52 } else { 60 })?;
        Some(Checkpoint { lsn: record.lsn, redo, kind, timeline, time_unix_s: bytes.i64()? })
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// COMMIT or COMMIT_PREPARED.
    Commit,
    /// ABORT or ABORT_PREPARED.
    Abort,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionEnd {
    /// How.
    pub outcome: Outcome,
    /// When, in microseconds since 1970.
    pub time_unix_us: i64,
}

impl TransactionEnd {
    /// The end of a transaction that a record tells of, if it does.
    #[must_use]
    pub fn from_record(record: &Record<'_>) -> Option<TransactionEnd> {
        if record.header.rmgr != RmgrId::TRANSACTION || !record.blocks.is_empty() {
            return None;
        }
        let outcome = match record.operation().code() {
            0x0 | 0x3 => Outcome::Commit,
            0x2 | 0x4 => Outcome::Abort,
            _ => return None,
        };
        let time = Bytes(record.main_data).i64()?;
        Some(TransactionEnd { outcome, time_unix_us: time.saturating_add(POSTGRES_EPOCH_S * 1_000_000) })
    }
}
