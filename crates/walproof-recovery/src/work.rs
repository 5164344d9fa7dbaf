//! Counts of what replay does that do not depend on `shared_buffers`.

use walproof_wal::{named_fields, Compression, PgVersion, PruneFlags, Record, RmgrId};

use crate::brief::Brief;
use crate::dropped::Dropped;

named_fields! {
    /// Images that are stored in one way.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ImageWork {
        /// Images.
        pub count: u64,
        /// Their bytes.
        pub bytes: u64,
    }
}

named_fields! {
    /// Images by the value of `wal_compression` that stores them so.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StoredImages {
        /// Plain ones.
        pub off: ImageWork,
        /// PostgreSQL's own LZ.
        pub pglz: ImageWork,
        /// LZ4.
        pub lz4: ImageWork,
        /// Zstandard.
        pub zstd: ImageWork,
    }
}

impl StoredImages {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.off.count + self.pglz.count + self.lz4.count + self.zstd.count
    }

    fn add(&mut self, compression: Option<Compression>, bytes: u64) {
        let way = match compression {
            None => &mut self.off,
            Some(Compression::Pglz) => &mut self.pglz,
            Some(Compression::Lz4) => &mut self.lz4,
            Some(Compression::Zstd) => &mut self.zstd,
        };
        way.count += 1;
        way.bytes += bytes;
    }
}

named_fields! {
    /// What replay has to do with records.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Work {
        /// Records.
        pub records: u64,
        /// Their bytes, images included.
        pub record_bytes: u64,
        /// Of the records, those whose kind is not the one that mostly followed such a four of records.
        pub unforeseen: u64,
        /// Records of GIN indexes, which rebuild lists on the page.
        pub gin_records: u64,
        /// Pages that a record takes apart and puts together again: pruned, split, deleted from (see [`compacts`]).
        pub compactions: u64,
        /// Pages of files that were later dropped or cut off: at the crash they are gone, and replay makes
        /// them again.
        pub extensions: u64,
        /// Block references.
        pub references: u64,
        /// Images in the WAL, by how they are stored.
        pub images: StoredImages,
        /// References whose image replay restores: with [`Images::Recorded`](crate::Images) those of the recording.
        pub restored: u64,
        /// References that replay builds from nothing.
        pub initialised: u64,
        /// References that replay passes over, because the page on disk is newer (`BLK_DONE`).
        pub done: u64,
        /// Different pages.
        pub pages: u64,
        /// Of these, pages that are dirty at the end: what the checkpoint brings to the disk.
        pub dirty: u64,
        /// Runs of neighbouring blocks among the dirty pages.
        pub runs: u64,
        /// Relations that were dropped: each may make the server go through all its buffers.
        pub relations_dropped: u64,
        /// Relations that were cut off at the end.
        pub truncations: u64,
        /// References whose page was not among the [`RECENT_PAGES`](crate::RECENT_PAGES) referenced last.
        pub recent_misses: u64,
        /// Of these, pages far from the one of the same fork that was referenced before, and not passed over.
        pub far_misses: u64,
        /// References whose page was not among the [`DISTANT_PAGES`](crate::DISTANT_PAGES) referenced last, and that
        /// were not passed over.
        pub distant_misses: u64,
        /// Of a cold cache without the prefetcher: reads of the disk, of which the kernel makes some longer
        /// (see [`Plan::read_ahead`](crate::Plan)).
        pub disk_requests: u64,
    }
}

impl Work {
    pub(crate) fn add_record(&mut self, record: &Brief<'_>) {
        self.records += 1;
        self.record_bytes += u64::from(record.length);
        self.gin_records += u64::from(record.rmgr == RmgrId::GIN);
        self.references += record.blocks.len() as u64;
        for block in record.blocks {
            self.initialised += u64::from(block.will_init);
            let Some(image) = block.image else { continue };
            self.images.add(image.compression, u64::from(image.length));
        }
    }

    pub(crate) fn add_dropped(&mut self, dropped: &Dropped) {
        match dropped {
            Dropped::Relations(relations) => self.relations_dropped += relations.len() as u64,
            Dropped::End(..) => self.truncations += 1,
            Dropped::Database(_) => {}
        }
    }
}

/// Whether replay of the record takes its first page apart and puts it together again (`PageRepairFragmentation` and
/// `PageIndexMultiDelete`, src/backend/storage/page/bufpage.c; `btree_xlog_split`, nbtxlog.c): that costs several times
/// as much as a record that adds to a page.
#[inline]
pub(crate) fn compacts(version: PgVersion, record: &Record<'_>) -> bool {
    let operation = record.header.info & 0xF0;
    match record.header.rmgr {
        // Pruning; from 17 on that of VACUUM is one of its own, and from 19 on it may do no more than mark the page.
        RmgrId::HEAP2 => match operation & 0x70 {
            0x10 | 0x20 if version >= PgVersion::V19 => record.prune_flags().is_some_and(PruneFlags::prunes),
            0x10 => true,
            0x20 => version >= PgVersion::V17,
            _ => false,
        },
        // Splits to the left and to the right, deduplication, deletion, VACUUM.
        RmgrId::BTREE => matches!(operation, 0x30 | 0x40 | 0x60 | 0x70 | 0xC0),
        _ => false,
    }
}
