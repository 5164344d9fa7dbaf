//! What records remove from `shared_buffers`: files of relations dropped with a transaction, ends of relations that
//! VACUUM truncates, databases.
//!
//! ```text
//! COMMIT, ABORT (src/include/access/xact.h), while operation has 0x80 (XLOG_XACT_HAS_INFO):
//!   xact_time 8 | xinfo 4 | [0x1] database, tablespace 8 | [0x2] n 4, n transactions of 4
//!   | [0x4] n 4, n files of 12 | ...
//! Storage/TRUNCATE (xl_smgr_truncate, src/include/catalog/storage_xlog.h):
//!   first block 4 | tablespace, database, file 12 | flags 4: 1 main fork, 2 visibility map, 4 free space map
//! Database/DROP (src/include/commands/dbcommands_xlog.h): database 4, ...
//! ```

use walproof_wal::{PgVersion, Record, RelFileLocator, RmgrId};

const HAS_INFO: u8 = 0x80;
const HAS_DATABASE: u32 = 0x1;
const HAS_SUBTRANSACTIONS: u32 = 0x2;
const HAS_FILES: u32 = 0x4;
const STORAGE: RmgrId = RmgrId(2);
const TRUNCATE: u8 = 0x20;
const DATABASE: RmgrId = RmgrId(4);

/// What a record removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// All forks of these relations.
    Relations(Vec<RelFileLocator>),
    /// The main fork from that block on.
    End(RelFileLocator, u32),
    /// Everything of a database.
    Database(u32),
}

/// What `record` removes, if anything.
pub(crate) fn dropped(record: &Record<'_>) -> Option<Dropped> {
    let info = record.header.info & 0xF0;
    let data = record.main_data;
    match record.header.rmgr {
        RmgrId::TRANSACTION => match record.operation().code() {
            0x0 | 0x2 | 0x3 | 0x4 if info & HAS_INFO != 0 => files(data).map(Dropped::Relations),
            _ => None,
        },
        STORAGE if info == TRUNCATE && word(data, 16)? & 1 != 0 => {
            Some(Dropped::End(locator(data, 4)?, word(data, 0)?))
        }
        DATABASE if info == drop_operation(record.version) => Some(Dropped::Database(word(data, 0)?)),
        _ => None,
    }
}

/// XLOG_DBASE_DROP: 15 split CREATE into two operations.
fn drop_operation(version: PgVersion) -> u8 {
    if version < PgVersion::V15 {
        0x10
    } else {
        0x20
    }
}

fn files(data: &[u8]) -> Option<Vec<RelFileLocator>> {
    let info = word(data, 8)?;
    let mut at = 12;
    if info & HAS_DATABASE != 0 {
        at += 8;
    }
    if info & HAS_SUBTRANSACTIONS != 0 {
        at += 4 + 4 * word(data, at)? as usize;
    }
    if info & HAS_FILES == 0 {
        return None;
    }
    let count = word(data, at)? as usize;
    // A number that is no number of files ends with the data.
    (0..count.min(data.len() / 12)).map(|file| locator(data, at + 4 + file * 12)).collect()
}

fn locator(data: &[u8], at: usize) -> Option<RelFileLocator> {
    Some(RelFileLocator {
        tablespace: word(data, at)?,
        database: word(data, at + 4)?,
        relation: word(data, at + 8)?,
    })
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}
