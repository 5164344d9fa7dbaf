//! What the recording itself says, and how well the simulation's rules explain it.

use walproof_wal::{named_fields, Checkpoint, CheckpointKind, Compression, Record, RmgrId};

const CHECKPOINT_REDO: u8 = 0xE0;
const END_OF_RECOVERY: u8 = 0x90;
const FPW_CHANGE: u8 = 0x80;
const BACKUP_END: u8 = 0x50;
const STANDBY: RmgrId = RmgrId(8);
const RUNNING_XACTS: u8 = 0x10;

named_fields! {
    /// A checkpoint of the recording's server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SourceCheckpoint {
        /// Its redo point.
        pub redo: u64,
        /// When it began, in seconds since 1970.
        pub at: i64,
        /// Whether the server was shut down there.
        pub is_shutdown: bool,
    }
}

named_fields! {
    /// The rules, tried on the recording's own checkpoints.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Agreement {
        /// References to pages whose history is known, between redo points that are known, of which the rule says
        /// that they have an image, or that they have none, and the recording agrees.
        pub images: u64,
        /// Likewise without image.
        pub bare: u64,
        /// Images that the rule does not explain.
        pub unexplained: u64,
        /// Images that the rule wants and the recording does not have.
        pub missing: u64,
        /// Images of pages whose size had been followed to there: what was expected, and what there was.
        pub expected_bytes: u64,
        /// What there was.
        pub found_bytes: u64,
    }
}

impl Agreement {
    /// A reference to a page that was touched before there, while the last redo point was at `redo`; None for one
    /// before the recording.
    pub(crate) fn add(&mut self, redo: Option<i64>, touched: i64, is_imaged: bool) {
        let is_wanted = redo.is_some_and(|redo| touched <= redo);
        match (is_wanted, is_imaged) {
            (true, true) => self.images += 1,
            (false, false) => self.bare += 1,
            (false, true) => self.unexplained += 1,
            (true, false) => self.missing += 1,
        }
    }
}

named_fields! {
    /// Facts of the recording.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Recorded {
        /// Records.
        pub records: u64,
        /// Their bytes, images included (`pg_stat_wal.wal_bytes`).
        pub record_bytes: u64,
        /// Full-page images.
        pub images: u64,
        /// Their bytes.
        pub image_bytes: u64,
        /// Of the images, those written because a hint bit was set.
        pub hint_images: u64,
        /// References to blocks.
        pub references: u64,
        /// Different pages; of a sample, those that it stands for.
        pub pages: u64,
        /// Of them, those that were held in memory.
        pub held_pages: u64,
        /// Pages whose first reference has no image though replay does not build them anew: they were touched since
        /// the last redo point before the recording.
        pub begun_before: u64,
        /// First and last time that a commit or an abort states, in microseconds since 1970.
        pub first_time_us: Option<i64>,
        /// The last one.
        pub last_time_us: Option<i64>,
        /// Longest time between two of them, in microseconds.
        pub longest_silence_us: i64,
        /// Checkpoints that were complete before the end of the recording.
        pub checkpoints: Vec<SourceCheckpoint>,
        /// Whether setting a hint bit writes WAL (checksums or `wal_log_hints`).
        pub has_hint_records: bool,
        /// Whether `full_page_writes` was changed, or off at a checkpoint.
        pub full_page_writes_off: bool,
        /// Whether an online backup ended, during which full-page images are forced.
        pub has_backup: bool,
        /// Whether images are there for `wal_consistency_checking`.
        pub has_consistency_images: bool,
        /// Method by which the last image was compressed.
        pub compression: Option<Compression>,
        /// How well the rules explain the recording.
        pub agreement: Agreement,
        /// Bytes of memory that the table of pages takes.
        pub memory_bytes: u64,
    }
}

/// What a record is to the checkpointer.
pub(crate) enum Role {
    /// A redo point of the recording's server (from 17).
    Redo,
    /// A complete checkpoint, and whether full-page images were on.
    Complete(SourceCheckpoint, bool),
    /// The end of a recovery without a checkpoint: a standby was promoted, and asks for one.
    Recovered,
    /// RUNNING_XACTS, of which each checkpoint writes one.
    Snapshot,
    /// `full_page_writes` was changed.
    ImagesChanged,
    /// An online backup ended.
    BackupEnd,
    /// Nothing of the kind.
    None,
}

pub(crate) fn role(record: &Record<'_>) -> Role {
    let info = record.header.info & 0xF0;
    if record.header.rmgr == STANDBY && info == RUNNING_XACTS {
        return Role::Snapshot;
    }
    if record.header.rmgr != RmgrId::XLOG {
        return Role::None;
    }
    if let Some(checkpoint) = Checkpoint::from_record(record) {
        let is_shutdown = checkpoint.kind == CheckpointKind::Shutdown;
        let source = SourceCheckpoint { redo: checkpoint.redo.0, at: checkpoint.time_unix_s, is_shutdown };
        // fullPageWrites of CheckPoint, src/include/catalog/pg_control.h.
        let has_images = record.main_data.get(16).is_none_or(|on| *on != 0);
        return Role::Complete(source, has_images);
    }
    match info {
        CHECKPOINT_REDO => Role::Redo,
        END_OF_RECOVERY => Role::Recovered,
        FPW_CHANGE => Role::ImagesChanged,
        BACKUP_END => Role::BackupEnd,
        _ => Role::None,
    }
}
