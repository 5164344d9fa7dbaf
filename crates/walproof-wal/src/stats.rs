//! Totals of a stretch of WAL: pg_waldump's statistics, and what they leave out.

use std::sync::Arc;

use crate::accounting::Accounting;
use crate::error::Error;
use crate::lsn::Lsn;
use crate::pages::WalIdentity;
use crate::parallel;
use crate::rate::Rate;
use crate::reader::{Finish, Gap, Range, Reader};
use crate::relations::Relations;
use crate::rmgr::{Operation, RmgrId};
use crate::source::Segments;
use crate::tally::{ImageTotals, Tally, Totals, TransactionTotals};
use crate::transaction::Checkpoint;

/// Totals of the records between two locations.
#[derive(Debug)]
pub struct Stats {
    /// What the WAL says of itself.
    pub identity: WalIdentity,
    /// Timeline of the last record's page.
    pub timeline: u32,
    /// Where the first record begins.
    pub start: Lsn,
    /// Where the last record ends, padding included.
    pub end: Lsn,
    /// What fills the bytes between `start` and `end`, gaps apart.
    pub accounting: Accounting,
    /// WAL that was missing and passed over.
    pub gaps: Vec<Gap>,
    pub(crate) tally: Tally,
}

impl Stats {
    /// Reads a stretch of WAL once, on so many threads. The result does not depend on their number; memory
    /// depends on the relations and their blocks, not on the amount of WAL.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next_record`].
    pub fn read(
        segments: impl Into<Arc<Segments>>,
        range: Range,
        threads: usize,
    ) -> Result<(Stats, Finish), Error> {
        let (stats, finish) = Stats::read_until_error(segments, range, threads)?;
        Ok((stats, finish?))
    }

    /// As [`Stats::read`], but an error that comes after the first record leaves the totals of what was read.
    ///
    /// # Errors
    /// As [`Reader::open`]; later ones are in the result.
    pub fn read_until_error(
        segments: impl Into<Arc<Segments>>,
        range: Range,
        threads: usize,
    ) -> Result<(Stats, Result<Finish, Error>), Error> {
        let reader = Reader::open(segments, range)?;
        reader.announce(1);
        let (identity, start) = (reader.identity(), reader.first_lsn());
        let (part, finish) = parallel::read(reader.position(), range, threads);
        let (first, end, timeline) = match part.span {
            Some(span) => (span.first, span.end, span.last_timeline),
            None => (start, start, reader.timeline()),
        };
        let (accounting, gaps, tally) = (part.accounting, part.gaps, part.tally);
        Ok((Stats { identity, timeline, start: first, end, accounting, gaps, tally }, finish))
    }

    /// Totals of all records.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.by_rmgr().for_each(|(_, totals)| sum += totals);
        sum
    }

    /// Totals of each resource manager that occurs, in the order of their numbers.
    pub fn by_rmgr(&self) -> impl Iterator<Item = (RmgrId, Totals)> + '_ {
        self.tally.by_rmgr()
    }

    /// Totals of each operation that occurs, by resource manager and operation code.
    pub fn by_operation(&self) -> impl Iterator<Item = (Operation, Totals)> + '_ {
        self.tally.by_operation(self.identity.version)
    }

    /// Totals of each relation.
    #[must_use]
    pub fn relations(&self) -> &Relations {
        &self.tally.relations
    }

    /// Totals of each minute.
    #[must_use]
    pub fn rate(&self) -> &Rate {
        &self.tally.rate
    }

    /// Full-page images.
    #[must_use]
    pub fn images(&self) -> ImageTotals {
        self.tally.images
    }

    /// Transactions that ended.
    #[must_use]
    pub fn transactions(&self) -> TransactionTotals {
        self.tally.transactions
    }

    /// Checkpoints, in order.
    #[must_use]
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.tally.checkpoints
    }
}
