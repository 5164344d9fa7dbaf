//! Resource managers and their operations, named as pg_waldump names them, by version.
//!
//! The tables were taken from src/include/access/rmgrlist.h and the `*_identify` functions in
//! src/backend/access/rmgrdesc of 13.16, 15.18, 17.11 and 18.3, and compared with what pg_waldump of 13, 15,
//! 16, 17, 18 and 19 prints. Between 13 and 19 these changed: Heap2 (14, 17, 19 without VISIBLE), Database (15),
//! CommitTs (14), Gist's ASSIGN_LSN, which is XLOG's in 19, and new operations (Transaction/INVALIDATION in 14,
//! XLOG/CHECKPOINT_REDO in 17, XLOG/LOGICAL_DECODING_STATUS_CHANGE in 19).

use std::fmt;

use crate::version::PgVersion;

/// The number of a resource manager: 0 to 21 are PostgreSQL's own, 128 to 255 (from 15) belong to extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RmgrId(pub u8);

impl RmgrId {
    /// XLOG: checkpoints, segment switches, images without a change.
    pub const XLOG: RmgrId = RmgrId(0);
    /// Transaction: commits and aborts.
    pub const TRANSACTION: RmgrId = RmgrId(1);
    /// Heap2: pruning, freezing, inserts of many rows.
    pub const HEAP2: RmgrId = RmgrId(9);
    /// Heap: inserts, updates and deletes of rows.
    pub const HEAP: RmgrId = RmgrId(10);
    /// Btree.
    pub const BTREE: RmgrId = RmgrId(11);
    /// Gin: inverted indexes.
    pub const GIN: RmgrId = RmgrId(13);

    const NAMES: [&'static str; 22] = [
        "XLOG",
        "Transaction",
        "Storage",
        "CLOG",
        "Database",
        "Tablespace",
        "MultiXact",
        "RelMap",
        "Standby",
        "Heap2",
        "Heap",
        "Btree",
        "Hash",
        "Gin",
        "Gist",
        "Sequence",
        "SPGist",
        "BRIN",
        "CommitTs",
        "ReplicationOrigin",
        "Generic",
        "LogicalMessage",
    ];

    /// Whether a server of that version knows the number.
    #[must_use]
    pub fn is_valid(self, version: PgVersion) -> bool {
        usize::from(self.0) < Self::NAMES.len() || (self.0 >= 128 && version >= PgVersion::V15)
    }
}

impl fmt::Display for RmgrId {
    /// `Heap`, `custom128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "custom{:03}", self.0),
        }
    }
}

/// What a record does: one of up to 16 operations of its resource manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The version that wrote it.
    pub version: PgVersion,
    /// The resource manager.
    pub rmgr: RmgrId,
    /// `xl_info`: only the high 4 bits tell operations apart.
    pub info: u8,
}

impl Operation {
    /// The operation's number among those of its resource manager. Transaction uses one of the 4 bits as a
    /// flag, so commits with and without it count as one operation (`XLogRecStoreStats`).
    #[must_use]
    pub fn code(self) -> u8 {
        let code = self.info >> 4;
        if self.rmgr == RmgrId::TRANSACTION {
            code & 0x07
        } else {
            code
        }
    }

    /// `INSERT+INIT`, `COMMIT`; None where the version has no such operation, or an extension defined it.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let v = self.version;
        Some(match (self.rmgr.0, self.code()) {
            (0, 0x0) => "CHECKPOINT_SHUTDOWN",
            (0, 0x1) => "CHECKPOINT_ONLINE",
            (0, 0x2) => "NOOP",
            (0, 0x3) => "NEXTOID",
            (0, 0x4) => "SWITCH",
            (0, 0x5) => "BACKUP_END",
            (0, 0x6) => "PARAMETER_CHANGE",
            (0, 0x7) => "RESTORE_POINT",
            (0, 0x8) => "FPW_CHANGE",
            (0, 0x9) => "END_OF_RECOVERY",
            (0, 0xA) => "FPI_FOR_HINT",
            (0, 0xB) => "FPI",
            (0, 0xC) if v >= PgVersion::V19 => "ASSIGN_LSN",
            (0, 0xD) => "OVERWRITE_CONTRECORD",
            (0, 0xE) if v >= PgVersion::V17 => "CHECKPOINT_REDO",
            (0, 0xF) if v >= PgVersion::V19 => "LOGICAL_DECODING_STATUS_CHANGE",

            (1, 0x0) => "COMMIT",
            (1, 0x1) => "PREPARE",
            (1, 0x2) => "ABORT",
            (1, 0x3) => "COMMIT_PREPARED",
            (1, 0x4) => "ABORT_PREPARED",
            (1, 0x5) => "ASSIGNMENT",
            (1, 0x6) if v >= PgVersion::V14 => "INVALIDATION",

            (2, 0x1) => "CREATE",
            (2, 0x2) => "TRUNCATE",

            (3, 0x0) => "ZEROPAGE",
            (3, 0x1) => "TRUNCATE",

            (4, 0x0) if v < PgVersion::V15 => "CREATE",
            (4, 0x1) if v < PgVersion::V15 => "DROP",
            (4, 0x0) => "CREATE_FILE_COPY",
            (4, 0x1) => "CREATE_WAL_LOG",
            (4, 0x2) if v >= PgVersion::V15 => "DROP",

            (5, 0x0) => "CREATE",
            (5, 0x1) => "DROP",

            (6, 0x0) => "ZERO_OFF_PAGE",
            (6, 0x1) => "ZERO_MEM_PAGE",
            (6, 0x2) => "CREATE_ID",
            (6, 0x3) => "TRUNCATE_ID",

            (7, 0x0) => "UPDATE",

            (8, 0x0) => "LOCK",
            (8, 0x1) => "RUNNING_XACTS",
            (8, 0x2) => "INVALIDATIONS",

            (9, 0x0) => "REWRITE",
            (9, 0x1) if v >= PgVersion::V17 => "PRUNE_ON_ACCESS",
            (9, 0x2) if v >= PgVersion::V17 => "PRUNE_VACUUM_SCAN",
            (9, 0x3) if v >= PgVersion::V17 => "PRUNE_VACUUM_CLEANUP",
            (9, 0x1) if v >= PgVersion::V14 => "PRUNE",
            (9, 0x2) if v >= PgVersion::V14 => "VACUUM",
            (9, 0x3) if v >= PgVersion::V14 => "FREEZE_PAGE",
            (9, 0x1) => "CLEAN",
            (9, 0x2) => "FREEZE_PAGE",
            (9, 0x3) => "CLEANUP_INFO",
            (9, 0x4) if v < PgVersion::V19 => "VISIBLE",
            (9, 0x5) => "MULTI_INSERT",
            (9, 0x6) => "LOCK_UPDATED",
            (9, 0x7) => "NEW_CID",
            (9, 0xD) => "MULTI_INSERT+INIT",

            (10, 0x0) => "INSERT",
            (10, 0x1) => "DELETE",
            (10, 0x2) => "UPDATE",
            (10, 0x3) => "TRUNCATE",
            (10, 0x4) => "HOT_UPDATE",
            (10, 0x5) => "HEAP_CONFIRM",
            (10, 0x6) => "LOCK",
            (10, 0x7) => "INPLACE",
            (10, 0x8) => "INSERT+INIT",
            (10, 0xA) => "UPDATE+INIT",
            (10, 0xC) => "HOT_UPDATE+INIT",

            (11, 0x0) => "INSERT_LEAF",
            (11, 0x1) => "INSERT_UPPER",
            (11, 0x2) => "INSERT_META",
            (11, 0x3) => "SPLIT_L",
            (11, 0x4) => "SPLIT_R",
            (11, 0x5) => "INSERT_POST",
            (11, 0x6) => "DEDUP",
            (11, 0x7) => "DELETE",
            (11, 0x8) => "UNLINK_PAGE",
            (11, 0x9) => "UNLINK_PAGE_META",
            (11, 0xA) => "NEWROOT",
            (11, 0xB) => "MARK_PAGE_HALFDEAD",
            (11, 0xC) => "VACUUM",
            (11, 0xD) => "REUSE_PAGE",
            (11, 0xE) => "META_CLEANUP",

            (12, 0x0) => "INIT_META_PAGE",
            (12, 0x1) => "INIT_BITMAP_PAGE",
            (12, 0x2) => "INSERT",
            (12, 0x3) => "ADD_OVFL_PAGE",
            (12, 0x4) => "SPLIT_ALLOCATE_PAGE",
            (12, 0x5) => "SPLIT_PAGE",
            (12, 0x6) => "SPLIT_COMPLETE",
            (12, 0x7) => "MOVE_PAGE_CONTENTS",
            (12, 0x8) => "SQUEEZE_PAGE",
            (12, 0x9) => "DELETE",
            (12, 0xA) => "SPLIT_CLEANUP",
            (12, 0xB) => "UPDATE_META_PAGE",
            (12, 0xC) => "VACUUM_ONE_PAGE",

            (13, 0x1) => "CREATE_PTREE",
            (13, 0x2) => "INSERT",
            (13, 0x3) => "SPLIT",
            (13, 0x4) => "VACUUM_PAGE",
            (13, 0x5) => "DELETE_PAGE",
            (13, 0x6) => "UPDATE_META_PAGE",
            (13, 0x7) => "INSERT_LISTPAGE",
            (13, 0x8) => "DELETE_LISTPAGE",
            (13, 0x9) => "VACUUM_DATA_LEAF_PAGE",

            (14, 0x0) => "PAGE_UPDATE",
            (14, 0x1) => "DELETE",
            (14, 0x2) => "PAGE_REUSE",
            (14, 0x3) => "PAGE_SPLIT",
            (14, 0x6) => "PAGE_DELETE",
            (14, 0x7) if v < PgVersion::V19 => "ASSIGN_LSN",

            (15, 0x0) => "LOG",

            (16, 0x1) => "ADD_LEAF",
            (16, 0x2) => "MOVE_LEAFS",
            (16, 0x3) => "ADD_NODE",
            (16, 0x4) => "SPLIT_TUPLE",
            (16, 0x5) => "PICKSPLIT",
            (16, 0x6) => "VACUUM_LEAF",
            (16, 0x7) => "VACUUM_ROOT",
            (16, 0x8) => "VACUUM_REDIRECT",

            (17, 0x0) => "CREATE_INDEX",
            (17, 0x1) => "INSERT",
            (17, 0x2) => "UPDATE",
            (17, 0x3) => "SAMEPAGE_UPDATE",
            (17, 0x4) => "REVMAP_EXTEND",
            (17, 0x5) => "DESUMMARIZE",
            (17, 0x9) => "INSERT+INIT",
            (17, 0xA) => "UPDATE+INIT",

            (18, 0x0) => "ZEROPAGE",
            (18, 0x1) => "TRUNCATE",
            (18, 0x2) if v < PgVersion::V14 => "SETTS",

            (19, 0x0) => "SET",
            (19, 0x1) => "DROP",

            // Generic ignores the operation altogether.
            (20, _) => "Generic",

            (21, 0x0) => "MESSAGE",
            _ => return None,
        })
    }
}

impl Operation {
    /// The name without that of the resource manager; `UNKNOWN (20)` where there is none.
    pub(crate) fn write_own_name(self, out: &mut impl fmt::Write) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "UNKNOWN ({:x})", self.code() << 4),
        }
    }
}

impl fmt::Display for Operation {
    /// `Heap/INSERT+INIT`, `custom128/UNKNOWN (10)`: pg_waldump's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.rmgr)?;
        self.write_own_name(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_change_with_the_version() {
        let name = |version, rmgr, info| Operation { version, rmgr: RmgrId(rmgr), info }.to_string();
        // rmgr, info: from which version on it has which name.
        type Names = &'static [(PgVersion, &'static str)];
        let cases: [(u8, u8, Names); 10] = [
            (
                9,
                0x10,
                &[(PgVersion::V13, "CLEAN"), (PgVersion::V14, "PRUNE"), (PgVersion::V17, "PRUNE_ON_ACCESS")],
            ),
            (9, 0x40, &[(PgVersion::V13, "VISIBLE"), (PgVersion::V19, "UNKNOWN (40)")]),
            (9, 0xC0, &[(PgVersion::V13, "UNKNOWN (c0)")]),
            (4, 0x10, &[(PgVersion::V13, "DROP"), (PgVersion::V15, "CREATE_WAL_LOG")]),
            (18, 0x20, &[(PgVersion::V13, "SETTS"), (PgVersion::V14, "UNKNOWN (20)")]),
            (1, 0xE0, &[(PgVersion::V13, "UNKNOWN (60)"), (PgVersion::V14, "INVALIDATION")]),
            (0, 0xC0, &[(PgVersion::V13, "UNKNOWN (c0)"), (PgVersion::V19, "ASSIGN_LSN")]),
            (0, 0xE0, &[(PgVersion::V13, "UNKNOWN (e0)"), (PgVersion::V17, "CHECKPOINT_REDO")]),
            (
                0,
                0xF0,
                &[(PgVersion::V13, "UNKNOWN (f0)"), (PgVersion::V19, "LOGICAL_DECODING_STATUS_CHANGE")],
            ),
            (14, 0x70, &[(PgVersion::V13, "ASSIGN_LSN"), (PgVersion::V19, "UNKNOWN (70)")]),
        ];
        for (rmgr, info, names) in cases {
            for version in PgVersion::ALL {
                let (_, expected) = names.iter().rev().find(|(from, _)| *from <= version).unwrap();
                assert_eq!(
                    name(version, rmgr, info),
                    format!("{}/{expected}", RmgrId(rmgr)),
                    "version {version}"
                );
            }
        }
    }

    #[test]
    fn flag_bits_do_not_change_an_operation() {
        let commit = Operation { version: PgVersion::V18, rmgr: RmgrId(1), info: 0x80 };
        assert_eq!((commit.code(), commit.to_string().as_str()), (0, "Transaction/COMMIT"));
        let insert = Operation { version: PgVersion::V18, rmgr: RmgrId(10), info: 0x82 };
        assert_eq!((insert.code(), insert.to_string().as_str()), (8, "Heap/INSERT+INIT"));
    }

    #[test]
    fn extensions_have_numbers_from_15() {
        for version in PgVersion::ALL {
            let valid: Vec<u8> = (0..=255).filter(|&id| RmgrId(id).is_valid(version)).collect();
            let custom = if version < PgVersion::V15 { 0..=0 } else { 128..=255 };
            let expected: Vec<u8> = (0..=21).chain(custom.filter(|&id| id > 0)).collect();
            assert_eq!(valid, expected);
        }
        let custom = Operation { version: PgVersion::V18, rmgr: RmgrId(200), info: 0x10 };
        assert_eq!(custom.to_string(), "custom200/UNKNOWN (10)");
    }
}
