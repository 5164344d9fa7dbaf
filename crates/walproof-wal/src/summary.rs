//! Totals of a stretch of WAL: pg_waldump's statistics, and what they leave out.

use crate::accounting::Accounting;
use crate::error::Error;
use crate::image::Compression;
use crate::lsn::Lsn;
use crate::pages::WalIdentity;
use crate::reader::{Finish, Range, Reader};
use crate::record::Record;
use crate::rmgr::{Operation, RmgrId};
use crate::source::Segments;
use crate::transaction::{Checkpoint, Outcome, TransactionEnd};

const XLOG_FPI_FOR_HINT: u8 = 0xA;

/// The columns of `pg_waldump --stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records ("N").
    pub records: u64,
    /// Bytes of the records without their images ("Record size").
    pub record_bytes: u64,
    /// Bytes of their images ("FPI size").
    pub image_bytes: u64,
}

impl Totals {
    /// Bytes of records and images ("Combined size").
    #[must_use]
    pub fn combined_bytes(&self) -> u64 {
        self.record_bytes + self.image_bytes
    }

    fn add(&mut self, other: Totals) {
        self.records += other.records;
        self.record_bytes += other.record_bytes;
        self.image_bytes += other.image_bytes;
    }
}

/// Full-page images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageTotals {
    /// Images, of every kind: `pg_stat_wal.wal_fpi`.
    pub count: u64,
    /// Their bytes in the WAL.
    pub bytes: u64,
    /// The bytes that they would take without compression.
    pub uncompressed_bytes: u64,
    /// Of the images, those written because a hint bit was set (with checksums or wal_log_hints).
    pub hint_count: u64,
    /// Bytes of those.
    pub hint_bytes: u64,
    /// Of the images, those that recovery does not restore (wal_consistency_checking).
    pub not_applied_count: u64,
    /// Of the images, those compressed: pglz, lz4, zstd.
    pub compressed_count: [u64; 3],
}

impl ImageTotals {
    /// Images compressed by that method.
    #[must_use]
    pub fn compressed_by(&self, method: Compression) -> u64 {
        let [pglz, lz4, zstd] = self.compressed_count;
        match method {
            Compression::Pglz => pglz,
            Compression::Lz4 => lz4,
            Compression::Zstd => zstd,
        }
    }

    fn add(&mut self, record: &Record<'_>) {
        let is_hint = record.header.rmgr == RmgrId::XLOG && record.operation().code() == XLOG_FPI_FOR_HINT;
        for image in record.blocks.iter().filter_map(|block| block.image) {
            let bytes = u64::from(image.length);
            self.count += 1;
            self.bytes += bytes;
            self.uncompressed_bytes += u64::from(image.uncompressed_length());
            if is_hint {
                self.hint_count += 1;
                self.hint_bytes += bytes;
            }
            if !image.apply {
                self.not_applied_count += 1;
            }
            let [pglz, lz4, zstd] = &mut self.compressed_count;
            match image.compression {
                Some(Compression::Pglz) => *pglz += 1,
                Some(Compression::Lz4) => *lz4 += 1,
                Some(Compression::Zstd) => *zstd += 1,
                None => {}
            }
        }
    }
}

/// Transactions that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionTotals {
    /// COMMIT and COMMIT_PREPARED records.
    pub commits: u64,
    /// ABORT and ABORT_PREPARED records.
    pub aborts: u64,
    /// Earliest commit, in microseconds since 1970.
    pub first_commit_unix_us: Option<i64>,
    /// Latest commit, in microseconds since 1970.
    pub last_commit_unix_us: Option<i64>,
}

impl TransactionTotals {
    fn add(&mut self, end: TransactionEnd) {
        match end.outcome {
            Outcome::Abort => self.aborts += 1,
            Outcome::Commit => {
                self.commits += 1;
                let time = end.time_unix_us;
                // Commit records are written slightly out of the order of their times.
                self.first_commit_unix_us =
                    Some(self.first_commit_unix_us.map_or(time, |first| first.min(time)));
                self.last_commit_unix_us = Some(self.last_commit_unix_us.map_or(time, |last| last.max(time)));
            }
        }
    }
}

/// Totals of the records between two locations.
#[derive(Debug)]
pub struct Summary {
    /// What the WAL says of itself.
    pub identity: WalIdentity,
    /// Timeline of the last page read.
    pub timeline: u32,
    /// Where the first record begins.
    pub start: Lsn,
    /// Where the last record ends, padding included.
    pub end: Lsn,
    /// Why there are no more records.
    pub finish: Finish,
    /// Checkpoints, in order.
    pub checkpoints: Vec<Checkpoint>,
    /// Full-page images.
    pub images: ImageTotals,
    /// Transactions.
    pub transactions: TransactionTotals,
    /// What fills the bytes between `start` and `end`.
    pub accounting: Accounting,
    operations: OperationTotals,
}

/// Totals of up to 16 operations for each of 256 resource managers.
#[derive(Debug)]
struct OperationTotals(Vec<[Totals; 16]>);

impl OperationTotals {
    fn new() -> OperationTotals {
        OperationTotals(vec![[Totals::default(); 16]; 256])
    }

    fn add(&mut self, operation: Operation, totals: Totals) {
        let manager = self.0.get_mut(usize::from(operation.rmgr.0));
        if let Some(slot) = manager.and_then(|slots| slots.get_mut(usize::from(operation.code()))) {
            slot.add(totals);
        }
    }
}

impl Summary {
    /// Reads a stretch of WAL once.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next_record`].
    pub fn read(segments: Segments, range: Range) -> Result<Summary, Error> {
        let mut reader = Reader::open(segments, range)?;
        let mut operations = OperationTotals::new();
        let mut images = ImageTotals::default();
        let mut transactions = TransactionTotals::default();
        let mut checkpoints = Vec::new();
        while let Some(record) = reader.next_record()? {
            let image_bytes = u64::from(record.image_bytes());
            let length = u64::from(record.header.total_length);
            let totals = Totals { records: 1, record_bytes: length.saturating_sub(image_bytes), image_bytes };
            operations.add(record.operation(), totals);
            if image_bytes > 0 {
                images.add(&record);
            }
            if let Some(end) = TransactionEnd::from_record(&record) {
                transactions.add(end);
            }
            checkpoints.extend(Checkpoint::from_record(&record));
        }
        Ok(Summary {
            identity: reader.identity(),
            timeline: reader.timeline(),
            start: reader.first_lsn(),
            end: reader.end_lsn(),
            accounting: reader.accounting(),
            finish: reader.into_finish(),
            checkpoints,
            images,
            transactions,
            operations,
        })
    }

    /// Totals of all records.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for (_, totals) in self.by_operation() {
            sum.add(totals);
        }
        sum
    }

    /// Totals of each resource manager that occurs, in the order of their numbers.
    pub fn by_rmgr(&self) -> impl Iterator<Item = (RmgrId, Totals)> + '_ {
        (0..=u8::MAX).zip(&self.operations.0).filter_map(|(id, slots)| {
            let mut sum = Totals::default();
            slots.iter().for_each(|totals| sum.add(*totals));
            (sum.records > 0).then_some((RmgrId(id), sum))
        })
    }

    /// Totals of each operation that occurs, by resource manager and operation code.
    pub fn by_operation(&self) -> impl Iterator<Item = (Operation, Totals)> + '_ {
        let version = self.identity.version;
        (0..=u8::MAX).zip(&self.operations.0).flat_map(move |(id, slots)| {
            (0u8..16).zip(slots).filter(|(_, totals)| totals.records > 0).map(move |(code, totals)| {
                (Operation { version, rmgr: RmgrId(id), info: code << 4 }, *totals)
            })
        })
    }
}
