//! Totals of records, in a form that can be taken of any part of the WAL and put together in order.

use std::ops::AddAssign;

use crate::fields::ByMethod;
use crate::named_fields;
use crate::rate::Rate;
use crate::record::Record;
use crate::relations::Relations;
use crate::rmgr::{Operation, RmgrId};
use crate::transaction::{Checkpoint, Outcome, TransactionEnd};
use crate::version::PgVersion;

const XLOG_FPI_FOR_HINT: u8 = 0xA;

/// The columns of `pg_waldump --stats`, and the number of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records ("N").
    pub records: u64,
    /// Bytes of the records without their images ("Record size").
    pub record_bytes: u64,
    /// Bytes of their images ("FPI size").
    pub image_bytes: u64,
    /// Their images.
    pub image_count: u64,
}

impl Totals {
    /// Bytes of records and images ("Combined size").
    #[must_use]
    pub fn combined_bytes(&self) -> u64 {
        self.record_bytes + self.image_bytes
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.records += other.records;
        self.record_bytes += other.record_bytes;
        self.image_bytes += other.image_bytes;
        self.image_count += other.image_count;
    }
}

named_fields! {
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
        /// Images that were compressed, by the method.
        pub compressed: ByMethod<MethodTotals>,
    }
}

named_fields! {
    /// Images compressed by one method.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MethodTotals {
        /// Images.
        pub count: u64,
        /// Their bytes in the WAL.
        pub bytes: u64,
        /// The bytes that they would take without compression.
        pub uncompressed_bytes: u64,
    }
}

impl ImageTotals {
    fn add(&mut self, record: &Record<'_>) {
        let is_hint = record.header.rmgr == RmgrId::XLOG && record.operation().code() == XLOG_FPI_FOR_HINT;
        for image in record.blocks.iter().filter_map(|block| block.image) {
            let bytes = u64::from(image.length);
            let uncompressed_bytes = u64::from(image.uncompressed_length());
            self.count += 1;
            self.bytes += bytes;
            self.uncompressed_bytes += uncompressed_bytes;
            if is_hint {
                self.hint_count += 1;
                self.hint_bytes += bytes;
            }
            if !image.apply {
                self.not_applied_count += 1;
            }
            if let Some(method) = image.compression {
                *self.compressed.of(method) += MethodTotals { count: 1, bytes, uncompressed_bytes };
            }
        }
    }
}

impl AddAssign for MethodTotals {
    fn add_assign(&mut self, other: MethodTotals) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.uncompressed_bytes += other.uncompressed_bytes;
    }
}

impl AddAssign for ImageTotals {
    fn add_assign(&mut self, other: ImageTotals) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.uncompressed_bytes += other.uncompressed_bytes;
        self.hint_count += other.hint_count;
        self.hint_bytes += other.hint_bytes;
        self.not_applied_count += other.not_applied_count;
        for (sum, more) in self.compressed.0.iter_mut().zip(other.compressed.0) {
            *sum += more;
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
        *self += match end.outcome {
            Outcome::Abort => TransactionTotals { aborts: 1, ..TransactionTotals::default() },
            Outcome::Commit => TransactionTotals {
                commits: 1,
                aborts: 0,
                first_commit_unix_us: Some(end.time_unix_us),
                last_commit_unix_us: Some(end.time_unix_us),
            },
        };
    }
}

impl AddAssign for TransactionTotals {
    fn add_assign(&mut self, other: TransactionTotals) {
        self.commits += other.commits;
        self.aborts += other.aborts;
        // Commit records are written slightly out of the order of their times.
        let both = [self.first_commit_unix_us, other.first_commit_unix_us];
        self.first_commit_unix_us = both.into_iter().flatten().min();
        self.last_commit_unix_us = self.last_commit_unix_us.max(other.last_commit_unix_us);
    }
}

/// Totals of the up to 16 operations of each resource manager.
#[derive(Debug, Default)]
pub(crate) struct OperationTotals(pub(crate) Vec<[Totals; 16]>);

impl OperationTotals {
    pub(crate) fn slots(&mut self, rmgr: usize) -> Option<&mut [Totals; 16]> {
        if rmgr >= self.0.len() {
            self.0.resize(rmgr + 1, [Totals::default(); 16]);
        }
        self.0.get_mut(rmgr)
    }
}

/// Everything that is counted of a part of the WAL.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: OperationTotals,
    pub(crate) images: ImageTotals,
    pub(crate) transactions: TransactionTotals,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) relations: Relations,
    pub(crate) rate: Rate,
}

impl Tally {
    /// Counts one more record.
    #[inline]
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let (image_count, image_bytes) = self.relations.add(record);
        let length = u64::from(record.header.total_length);
        let record_bytes = length.saturating_sub(image_bytes);
        let totals = Totals { records: 1, record_bytes, image_bytes, image_count };
        let slots = self.operations.slots(usize::from(record.header.rmgr.0));
        if let Some(slot) = slots.and_then(|slots| slots.get_mut(usize::from(record.operation().code()))) {
            *slot += totals;
        }
        self.rate.add(totals);
        if image_count > 0 {
            self.images.add(record);
        }
        match record.header.rmgr {
            RmgrId::TRANSACTION => {
                if let Some(end) = TransactionEnd::from_record(record) {
                    self.transactions.add(end);
                    self.rate.add_end(end);
                }
            }
            RmgrId::XLOG => self.checkpoints.extend(Checkpoint::from_record(record)),
            _ => {}
        }
    }

    /// Counts what another tally counted of the WAL that follows.
    pub(crate) fn append(&mut self, next: Tally) {
        for (rmgr, slots) in next.operations.0.into_iter().enumerate() {
            for (sum, more) in self.operations.slots(rmgr).into_iter().flatten().zip(slots) {
                *sum += more;
            }
        }
        self.images += next.images;
        self.transactions += next.transactions;
        self.checkpoints.extend(next.checkpoints);
        self.relations.append(next.relations);
        self.rate.append(next.rate);
    }

    /// Totals of each resource manager that occurs, in the order of their numbers.
    pub(crate) fn by_rmgr(&self) -> impl Iterator<Item = (RmgrId, Totals)> + '_ {
        (0..=u8::MAX).zip(&self.operations.0).filter_map(|(id, slots)| {
            let mut sum = Totals::default();
            slots.iter().for_each(|totals| sum += *totals);
            (sum.records > 0).then_some((RmgrId(id), sum))
        })
    }

    /// Totals of each operation that occurs, by resource manager and operation code.
    pub(crate) fn by_operation(&self, version: PgVersion) -> impl Iterator<Item = (Operation, Totals)> + '_ {
        (0..=u8::MAX).zip(&self.operations.0).flat_map(move |(id, slots)| {
            (0u8..16).zip(slots).filter(|(_, totals)| totals.records > 0).map(move |(code, totals)| {
                (Operation { version, rmgr: RmgrId(id), info: code << 4 }, *totals)
            })
        })
    }
}
