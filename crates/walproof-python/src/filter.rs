//! Which records are wanted: those that meet every condition that was given.

use pyo3::prelude::*;
use walproof_wal::{BlockRef, Operation, PgVersion, Record, RelFileLocator, RmgrId};

use crate::ended::ended_with;

/// Names of resource managers and operations, transactions, relations as tablespace, database and file number; fork,
/// block; whether only with images.
pub type RawFilter = (Vec<String>, Vec<u32>, Vec<(u32, u32, u32)>, Option<u8>, Option<u32>, bool);

/// The conditions. A list is met by any of its members, and by every record when it is empty.
pub struct Filter {
    operations: Vec<String>,
    xids: Vec<u32>,
    relations: Vec<RelFileLocator>,
    fork: Option<u8>,
    block: Option<u32>,
    only_images: bool,
}

impl From<RawFilter> for Filter {
    fn from(raw: RawFilter) -> Filter {
        let (operations, xids, relations, fork, block, only_images) = raw;
        let relations = relations
            .into_iter()
            .map(|(tablespace, database, relation)| RelFileLocator { tablespace, database, relation })
            .collect();
        Filter { operations, xids, relations, fork, block, only_images }
    }
}

impl Filter {
    /// Whether a record is wanted.
    pub fn wants(&self, record: &Record<'_>) -> bool {
        (self.xids.is_empty() || self.wants_transaction(record))
            && (!self.only_images || record.blocks.iter().any(|block| block.image.is_some()))
            && (!self.is_about_blocks() || record.blocks.iter().any(|block| self.wants_block(block)))
            && (self.operations.is_empty() || self.wants_operation(record))
    }

    /// A subtransaction's records are found by its own number, the end of its transaction by either; where the record
    /// names its top-level transaction (`wal_level = logical`), by that, too.
    fn wants_transaction(&self, record: &Record<'_>) -> bool {
        self.xids.contains(&record.header.xid)
            || record.toplevel_xid.is_some_and(|xid| self.xids.contains(&xid))
            || ended_with(record).iter().any(|xid| self.xids.contains(xid))
    }

    fn is_about_blocks(&self) -> bool {
        !self.relations.is_empty() || self.fork.is_some() || self.block.is_some()
    }

    /// One and the same block has to meet all conditions about blocks.
    fn wants_block(&self, block: &BlockRef) -> bool {
        (self.relations.is_empty() || self.relations.contains(&block.relation))
            && self.fork.is_none_or(|fork| fork == block.fork)
            && self.block.is_none_or(|number| number == block.block)
    }

    /// `Heap` wants all of its operations, `Heap/INSERT` also `INSERT+INIT`. Case does not count, as in pg_waldump.
    fn wants_operation(&self, record: &Record<'_>) -> bool {
        let name = record.operation().to_string();
        let (whole, plain) = (name.as_str(), name.split_once('+').map_or(name.as_str(), |(plain, _)| plain));
        let rmgr = record.header.rmgr.to_string();
        self.operations
            .iter()
            .any(|wanted| [whole, plain, &rmgr].iter().any(|is| is.eq_ignore_ascii_case(wanted)))
    }
}

/// The names of all operations of all versions, `Heap/INSERT+INIT`, by resource manager; a manager without names of
/// operations has its own.
#[pyfunction]
pub fn operation_names() -> Vec<String> {
    let mut names = Vec::new();
    for number in 0..22 {
        let rmgr = RmgrId(number);
        names.push(rmgr.to_string());
        for code in 0..16 {
            for version in PgVersion::ALL {
                let operation = Operation { version, rmgr, info: code << 4 };
                if operation.name().is_some() && !names.contains(&operation.to_string()) {
                    names.push(operation.to_string());
                }
            }
        }
    }
    names
}
