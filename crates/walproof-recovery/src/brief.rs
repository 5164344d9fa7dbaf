//! What the simulation needs of a record, little enough to be kept for every record between two checkpoints.

use walproof_wal::{BlockRef, PgVersion, Record, RmgrId};

use crate::dropped::{dropped, Dropped};
use crate::work::compacts;

/// A record without its contents.
#[derive(Clone, Debug)]
pub(crate) struct Brief<'a> {
    pub(crate) length: u32,
    pub(crate) rmgr: RmgrId,
    pub(crate) info: u8,
    /// Of the blocks: places, images' sizes and flags.
    pub(crate) blocks: &'a [BlockRef],
    /// Whether its first page is taken apart and put together again.
    pub(crate) compacts: bool,
    /// Whether it only marks the table's page as all-visible.
    pub(crate) marks_visible: bool,
    pub(crate) dropped: Option<Dropped>,
}

impl<'a> Brief<'a> {
    #[inline]
    pub(crate) fn of(version: PgVersion, record: &Record<'a>) -> Brief<'a> {
        Brief {
            length: record.header.total_length,
            rmgr: record.header.rmgr,
            info: record.header.info,
            blocks: record.blocks,
            compacts: compacts(version, record),
            // Asked of any block of the main fork: it is the record that says so.
            marks_visible: record.only_marks_visible(&BlockRef::default()),
            dropped: dropped(record),
        }
    }
}
