//! Which relations the WAL is about: totals of each relation and fork, down to the number of distinct blocks.
//!
//! Every byte of a record counts once. A block reference's own bytes (its header, image and data) count for the
//! relation and fork of that block; the rest of the record, and the record itself, for those of its first
//! block; a record without blocks counts apart. So the totals add up to those of all records.

use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use crate::block::{BlockRef, RelFileLocator};
use crate::record::Record;
use crate::rmgr::RmgrId;
use crate::tally::Totals;

/// One relation's fork.
#[derive(Clone, Debug)]
pub struct RelationTotals {
    /// The relation's files.
    pub relation: RelFileLocator,
    /// Fork: 0 main, 1 free space map, 2 visibility map, 3 init.
    pub fork: u8,
    /// Its share of the records.
    pub totals: Totals,
    /// The resource manager of the index access method that wrote to it; None for a table, and for an index
    /// of which the WAL holds nothing but full-page images or generic records.
    pub method: Option<RmgrId>,
    blocks: RoaringBitmap,
    /// The block that was added last: most records are about the block of the record before.
    last_block: Option<u32>,
}

impl RelationTotals {
    /// How many different blocks records refer to.
    #[must_use]
    pub fn distinct_blocks(&self) -> u64 {
        self.blocks.len()
    }

    /// A row with blocks that were counted before.
    pub(crate) fn of(
        (relation, fork): Key,
        totals: Totals,
        method: Option<RmgrId>,
        blocks: RoaringBitmap,
    ) -> RelationTotals {
        RelationTotals { relation, fork, totals, method, blocks, last_block: None }
    }

    /// The different blocks that records refer to.
    pub(crate) fn blocks(&self) -> &RoaringBitmap {
        &self.blocks
    }

    #[inline]
    fn add_block(&mut self, block: &BlockRef) {
        if self.last_block != Some(block.block) {
            self.last_block = Some(block.block);
            self.blocks.insert(block.block);
        }
    }
}

pub(crate) type Key = (RelFileLocator, u8);

/// Totals of every relation.
#[derive(Debug, Default)]
pub struct Relations {
    rows: Vec<RelationTotals>,
    index: FxHashMap<Key, usize>,
    /// Rows that were used lately, by a few bits of the key: most records need no look-up in `index`.
    recent: [Option<(Key, usize)>; 16],
    none: Totals,
}

impl Relations {
    /// Every relation and fork that a record refers to, in the order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = &RelationTotals> + '_ {
        self.rows.iter()
    }

    /// Records that refer to no block.
    #[must_use]
    pub fn none(&self) -> Totals {
        self.none
    }

    /// Relations from their parts; None if a row comes twice.
    pub(crate) fn of(rows: Vec<RelationTotals>, none: Totals) -> Option<Relations> {
        let places = rows.iter().zip(0..).map(|(row, at)| ((row.relation, row.fork), at));
        let index: FxHashMap<Key, usize> = places.collect();
        (index.len() == rows.len()).then(|| Relations { rows, index, none, ..Relations::default() })
    }

    /// Counts a record; how many images it has, and their bytes.
    #[inline]
    pub(crate) fn add(&mut self, record: &Record<'_>) -> (u64, u64) {
        let length = u64::from(record.header.total_length);
        let Some((first, others)) = record.blocks.split_first() else {
            self.none += Totals { records: 1, record_bytes: length, ..Totals::default() };
            return (0, 0);
        };
        let (mut image_count, mut image_bytes, mut rest) = (0, 0, length);
        let method = access_method(record.header.rmgr);
        for block in others {
            let totals = Totals { records: 0, ..block_totals(block) };
            let row = self.row(block);
            row.totals += totals;
            row.method = row.method.or(method);
            row.add_block(block);
            image_count += totals.image_count;
            image_bytes += totals.image_bytes;
            rest -= totals.combined_bytes().min(rest);
        }
        let totals = block_totals(first);
        let row = self.row(first);
        row.totals += Totals { records: 1, record_bytes: rest - totals.image_bytes.min(rest), ..totals };
        row.method = row.method.or(method);
        row.add_block(first);
        (image_count + totals.image_count, image_bytes + totals.image_bytes)
    }

    #[inline]
    fn row(&mut self, block: &BlockRef) -> &mut RelationTotals {
        let key = (block.relation, block.fork);
        // The relations of one load were created one after the other: their numbers differ in the low bits.
        let hint = (block.relation.relation ^ u32::from(block.fork) << 2) as usize & 15;
        let at = match self.recent.get(hint) {
            Some(Some((recent, at))) if *recent == key => *at,
            _ => self.look_up(key, hint),
        };
        // `look_up` and `recent` only ever give places that exist.
        #[allow(clippy::indexing_slicing)]
        &mut self.rows[at]
    }

    fn look_up(&mut self, key: Key, hint: usize) -> usize {
        let (rows, (relation, fork)) = (&mut self.rows, key);
        let at = *self.index.entry(key).or_insert_with(|| {
            rows.push(RelationTotals::of((relation, fork), Totals::default(), None, RoaringBitmap::new()));
            rows.len() - 1
        });
        if let Some(slot) = self.recent.get_mut(hint) {
            *slot = Some((key, at));
        }
        at
    }

    pub(crate) fn append(&mut self, next: Relations) {
        self.none += next.none;
        for row in next.rows {
            match self.index.get(&(row.relation, row.fork)).and_then(|&at| self.rows.get_mut(at)) {
                Some(known) => {
                    known.totals += row.totals;
                    known.method = known.method.or(row.method);
                    known.blocks |= row.blocks;
                }
                None => {
                    self.index.insert((row.relation, row.fork), self.rows.len());
                    self.rows.push(row);
                }
            }
        }
    }
}

/// A block reference's own share.
#[inline]
fn block_totals(block: &BlockRef) -> Totals {
    let image_bytes = block.image.map_or(0, |image| u64::from(image.length));
    Totals {
        records: 0,
        record_bytes: u64::from(block.wal_bytes()) - image_bytes,
        image_bytes,
        image_count: u64::from(block.image.is_some()),
    }
}

/// The resource manager, if it is that of an index access method: such records refer to blocks of indexes only.
#[inline]
fn access_method(rmgr: RmgrId) -> Option<RmgrId> {
    const IS_ACCESS_METHOD: u32 = 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 16 | 1 << 17;
    (rmgr.0 < 32 && IS_ACCESS_METHOD >> rmgr.0 & 1 == 1).then_some(rmgr)
}
