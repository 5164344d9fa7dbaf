//! What the WAL is written for: totals by resource manager and by relation.
//!
//! Every byte of a record counts once, as in [`Relations`](walproof_wal::Relations): what belongs to a block reference for
//! the relation of that block, the rest for that of the first block, or for none.

use rustc_hash::FxHashMap;
use walproof_wal::{Lsn, Outcome, Record, RelFileLocator, RmgrId, Totals, TransactionEnd};

use super::changes::{Change, Changes, Following};

/// Totals of all records so far.
#[derive(Clone, Debug)]
pub struct Causes {
    /// By resource manager.
    pub rmgrs: Vec<(RmgrId, Totals)>,
    /// By relation, its forks together: those with the most bytes, in no order.
    pub relations: Vec<RelationCause>,
    /// The other relations.
    pub others: Totals,
    /// Records without blocks.
    pub none: Totals,
    /// Transactions that were committed, prepared ones included.
    pub commits: u64,
    /// Transactions that were aborted.
    pub aborts: u64,
}

/// Totals of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationCause {
    /// The relation's files.
    pub relation: RelFileLocator,
    /// The first record that is counted here; earlier ones are among the others.
    pub counted_from: Lsn,
    /// Its share of the records.
    pub totals: Totals,
    /// What is done to it.
    pub changes: Changes,
}

/// A relation that is told apart.
#[derive(Debug)]
struct Row {
    relation: RelFileLocator,
    counted_from: Lsn,
    totals: Totals,
    following: Following,
}

/// Counts them.
#[derive(Debug)]
pub(crate) struct Counting {
    /// By the numbers of resource managers.
    rmgrs: Vec<Totals>,
    rows: Vec<Row>,
    index: FxHashMap<RelFileLocator, usize>,
    /// Rows that were used lately, by the low bits of their relation.
    recent: [Option<(RelFileLocator, usize)>; 64],
    rows_most: usize,
    others: Totals,
    none: Totals,
    commits: u64,
    aborts: u64,
}

impl Counting {
    /// At least `relations` are told apart, and at most twice as many.
    pub(crate) fn new(relations: usize) -> Counting {
        Counting {
            rmgrs: vec![Totals::default(); 256],
            rows: Vec::new(),
            index: FxHashMap::default(),
            recent: [None; 64],
            rows_most: relations.max(1).saturating_mul(2),
            others: Totals::default(),
            none: Totals::default(),
            commits: 0,
            aborts: 0,
        }
    }

    pub(crate) fn causes(&self) -> Causes {
        let rmgrs = (0..=u8::MAX).map(RmgrId).zip(self.rmgrs.iter().copied());
        Causes {
            rmgrs: rmgrs.filter(|(_, totals)| totals.records > 0).collect(),
            relations: self.rows.iter().map(Row::cause).collect(),
            others: self.others,
            none: self.none,
            commits: self.commits,
            aborts: self.aborts,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let length = u64::from(record.header.total_length);
        let (mut rest, mut image_bytes, mut image_count) = (length, 0, 0);
        for (at, block) in record.blocks.iter().enumerate().rev() {
            let own_images = block.image.map_or(0, |image| u64::from(image.length));
            let block_bytes = u64::from(block.wal_bytes());
            let is_first = at == 0;
            let bytes = if is_first { rest } else { block_bytes.min(rest) };
            let totals = Totals {
                records: u64::from(is_first),
                record_bytes: bytes.saturating_sub(own_images),
                image_bytes: own_images,
                image_count: u64::from(block.image.is_some()),
            };
            rest -= block_bytes.min(rest);
            image_bytes += totals.image_bytes;
            image_count += totals.image_count;
            let change = if is_first { Change::of(record) } else { None };
            match self.row(block.relation, record.lsn) {
                Some(row) => {
                    row.totals += totals;
                    if let Some(change) = change {
                        row.following.add(change, length, own_images, record.header.xid);
                    }
                }
                None => self.others += totals,
            }
        }
        let record_bytes = length.saturating_sub(image_bytes);
        let totals = Totals { records: 1, record_bytes, image_bytes, image_count };
        if record.blocks.is_empty() {
            self.none += totals;
        }
        if let Some(of_manager) = self.rmgrs.get_mut(usize::from(record.header.rmgr.0)) {
            *of_manager += totals;
        }
        if record.header.rmgr == RmgrId::TRANSACTION {
            match TransactionEnd::from_record(record).map(|end| end.outcome) {
                Some(Outcome::Commit) => self.commits += 1,
                Some(Outcome::Abort) => self.aborts += 1,
                None => {}
            }
        }
    }

    #[inline]
    fn row(&mut self, relation: RelFileLocator, lsn: Lsn) -> Option<&mut Row> {
        let slot = relation.relation as usize % self.recent.len();
        let at = match self.recent.get(slot) {
            Some(Some((recent, at))) if *recent == relation => *at,
            _ => self.look_up(relation, lsn, slot),
        };
        self.rows.get_mut(at)
    }

    fn look_up(&mut self, relation: RelFileLocator, lsn: Lsn, slot: usize) -> usize {
        if self.rows.len() >= self.rows_most && !self.index.contains_key(&relation) {
            self.merge();
        }
        let next = self.rows.len();
        let at = *self.index.entry(relation).or_insert(next);
        if at == next {
            let (totals, following) = (Totals::default(), Following::default());
            self.rows.push(Row { relation, counted_from: lsn, totals, following });
        }
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some((relation, at));
        }
        at
    }

    /// The half of the relations with the fewest bytes become others.
    fn merge(&mut self) {
        self.rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.totals.combined_bytes()), row.relation));
        for row in self.rows.drain(self.rows_most / 2..) {
            self.others += row.totals;
        }
        self.index = self.rows.iter().zip(0..).map(|(row, at)| (row.relation, at)).collect();
        self.recent = [None; 64];
    }
}

impl Row {
    fn cause(&self) -> RelationCause {
        RelationCause {
            relation: self.relation,
            counted_from: self.counted_from,
            totals: self.totals,
            changes: self.following.changes,
        }
    }
}
