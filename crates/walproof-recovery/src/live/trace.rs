//! What simulations need of each record since the last checkpoint, in few bytes: 13 to 16 tell where recovery begins only
//! when the checkpoint is complete, and the records after that place are then simulated again.
//!
//! Records stand in chunks, each of which can be read by itself and begins with the location of its first record:
//!
//! ```text
//! record: lsn - end of the one before, end - lsn, length (varints) | rmgr u8 | info u8
//!         | blocks, 0x40 drops, 0x80 compacts u8 | blocks ... | [drops] what
//! block:  number of the fork << 5 | 0x01 initialised, 0x02 image, 0x04 applied, method << 3 (varint)
//!         | [new fork] tablespace, database, relation u32, fork u8 | block - the one before of the fork (zigzag varint)
//!         | [image] length (varint)
//! ```

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use walproof_wal::{BlockRef, Compression, Image, Lsn, RelFileLocator, RmgrId};

use crate::brief::Brief;
use crate::dropped::Dropped;
use crate::live::spill::Spill;

/// A chunk is closed when it has so many bytes.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

const DROPS: u8 = 0x40;
const COMPACTS: u8 = 0x80;
const BLOCKS: u8 = 0x3F;
const WILL_INIT: u64 = 1;
const HAS_IMAGE: u64 = 2;
const APPLIED: u64 = 4;
const METHOD: u32 = 3;
const FORK: u32 = 5;

/// Records of which little is kept.
#[derive(Debug)]
pub(crate) struct Trace {
    chunks: VecDeque<Chunk>,
    /// Number of the first of `chunks`.
    first: u64,
    open: Open,
    bytes: u64,
    bytes_most: u64,
    spill: Spill,
    /// Every record that begins here or later is there.
    pub(crate) from: Lsn,
}

#[derive(Debug)]
struct Chunk {
    from: Lsn,
    records: u64,
    bytes: u64,
    kept: Kept,
}

/// Where a chunk's bytes are.
#[derive(Debug)]
pub(crate) enum Kept {
    Memory(Vec<u8>),
    /// Number of the place in the file, and length.
    File(u64, usize),
}

/// The chunk that is written.
#[derive(Debug, Default)]
struct Open {
    from: Option<Lsn>,
    records: u64,
    bytes: Vec<u8>,
    last_end: Lsn,
    forks: FxHashMap<(RelFileLocator, u8), usize>,
    last_blocks: Vec<u32>,
}

impl Trace {
    /// A trace of at most so many bytes, of all WAL from `from` on.
    pub(crate) fn new(from: Lsn, bytes_most: u64, spill: Spill) -> Trace {
        Trace { chunks: VecDeque::new(), first: 0, open: Open::default(), bytes: 0, bytes_most, spill, from }
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.open.bytes.len() as u64
    }

    /// Bytes of it in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.spill.memory_bytes() + self.open.bytes.capacity() as u64
    }

    /// Nothing of it is left, and it starts over.
    pub(crate) fn clear(&mut self, from: Lsn) {
        self.forget_before(u64::MAX);
        self.open = Open::default();
        self.from = from;
    }

    /// Adds a record; the first ones are dropped when there are too many bytes.
    pub(crate) fn add(&mut self, lsn: Lsn, end: Lsn, record: &Brief<'_>) {
        self.open.add(lsn, end, record);
        if self.open.bytes.len() < CHUNK_BYTES {
            return;
        }
        let open = std::mem::take(&mut self.open);
        let bytes = open.bytes.len() as u64;
        self.bytes += bytes;
        let kept = self.spill.keep(open.bytes);
        let from = open.from.unwrap_or(lsn);
        self.chunks.push_back(Chunk { from, records: open.records, bytes, kept });
        while self.bytes > self.bytes_most && !self.chunks.is_empty() {
            self.forget_before(self.first + 1);
            let next = self.chunks.front().map_or(Some(end), |chunk| Some(chunk.from));
            self.from = next.unwrap_or(end);
        }
    }

    /// Drops what lies before `lsn`, in whole chunks.
    pub(crate) fn forget_until(&mut self, lsn: Lsn) {
        let number = self.number_of(lsn);
        if number > self.first {
            self.forget_before(number);
            self.from = self.chunks.front().map(|chunk| chunk.from).or(self.open.from).unwrap_or(lsn);
        }
    }

    /// The chunk that holds the first record from `lsn` on.
    pub(crate) fn number_of(&self, lsn: Lsn) -> u64 {
        let behind = self.chunks.partition_point(|chunk| chunk.from <= lsn) as u64;
        match self.open.from {
            Some(from) if from <= lsn => self.first + self.chunks.len() as u64,
            _ => self.first + behind.saturating_sub(1),
        }
    }

    fn forget_before(&mut self, number: u64) {
        while self.first < number {
            let Some(chunk) = self.chunks.pop_front() else { return };
            self.first += 1;
            self.bytes -= chunk.bytes;
            self.spill.forget(chunk.kept);
        }
    }

    /// Shows the records of a chunk; returns whether it was the last one. None if it is no longer there, or
    /// could not be read.
    pub(crate) fn show(&self, number: u64, show: &mut impl FnMut(Lsn, Lsn, &Brief<'_>)) -> Option<bool> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match self.chunks.get(place) {
            Some(chunk) => {
                read(chunk.from, &self.spill.read(&chunk.kept)?, show)?;
                Some(false)
            }
            None if place == self.chunks.len() => {
                if let Some(from) = self.open.from {
                    read(from, &self.open.bytes, show)?;
                }
                Some(true)
            }
            None => None,
        }
    }

    /// Records of the chunks from that one on.
    pub(crate) fn records_from(&self, number: u64) -> u64 {
        let place = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.chunks.iter().skip(place).map(|chunk| chunk.records).sum::<u64>() + self.open.records
    }
}

impl Open {
    fn add(&mut self, lsn: Lsn, end: Lsn, record: &Brief<'_>) {
        if self.from.is_none() {
            self.from = Some(lsn);
            self.last_end = lsn;
        }
        self.records += 1;
        let bytes = &mut self.bytes;
        put(bytes, lsn.0.wrapping_sub(self.last_end.0));
        put(bytes, end.0.wrapping_sub(lsn.0));
        put(bytes, u64::from(record.length));
        self.last_end = end;
        let mut flags = record.blocks.len() as u8 & BLOCKS;
        flags |= if record.compacts { COMPACTS } else { 0 };
        flags |= if record.dropped.is_some() { DROPS } else { 0 };
        bytes.extend([record.rmgr.0, record.info, flags]);
        for block in record.blocks {
            let next = self.forks.len();
            let fork = *self.forks.entry((block.relation, block.fork)).or_insert(next);
            let mut told = ((fork as u64) << FORK) | (u64::from(block.will_init) * WILL_INIT);
            if let Some(image) = block.image {
                let method = image.compression.map_or(0, |method_used| method_used as u64 + 1);
                told |= HAS_IMAGE | (u64::from(image.apply) * APPLIED) | (method << METHOD);
            }
            put(bytes, told);
            if fork == next {
                put_locator(bytes, block.relation);
                bytes.push(block.fork);
                self.last_blocks.push(0);
            }
            if let Some(last) = self.last_blocks.get_mut(fork) {
                let step = i64::from(block.block) - i64::from(*last);
                put(bytes, (step << 1 ^ step >> 63) as u64);
                *last = block.block;
            }
            if let Some(image) = block.image {
                put(bytes, u64::from(image.length));
            }
        }
        match &record.dropped {
            None => {}
            Some(Dropped::Relations(relations)) => {
                put(bytes, relations.len() as u64 + 2);
                relations.iter().for_each(|relation| put_locator(bytes, *relation));
            }
            Some(Dropped::End(relation, first)) => {
                put(bytes, 0);
                put_locator(bytes, *relation);
                put(bytes, u64::from(*first));
            }
            Some(Dropped::Database(database)) => {
                put(bytes, 1);
                put(bytes, u64::from(*database));
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put_locator(bytes: &mut Vec<u8>, relation: RelFileLocator) {
    for oid in [relation.tablespace, relation.database, relation.relation] {
        bytes.extend(oid.to_le_bytes());
    }
}

/// Shows the records of a chunk's bytes; None if they are not records, which never happens.
fn read(from: Lsn, bytes: &[u8], show: &mut impl FnMut(Lsn, Lsn, &Brief<'_>)) -> Option<()> {
    let mut rest = bytes;
    let mut last_end = from;
    let mut forks: Vec<(RelFileLocator, u8, u32)> = Vec::new();
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let lsn = Lsn(last_end.0.wrapping_add(take(&mut rest)?));
        let end = Lsn(lsn.0.wrapping_add(take(&mut rest)?));
        last_end = end;
        let length = take(&mut rest)? as u32;
        let [rmgr, info, flags] = array(&mut rest)?;
        blocks.clear();
        for _ in 0..flags & BLOCKS {
            blocks.push(block(&mut rest, &mut forks)?);
        }
        let dropped = if flags & DROPS != 0 { Some(drops(&mut rest)?) } else { None };
        let (rmgr, compacts) = (RmgrId(rmgr), flags & COMPACTS != 0);
        // Only asked for where pages on disk may be newer, which is not simulated here.
        let marks_visible = false;
        show(lsn, end, &Brief { length, rmgr, info, blocks: &blocks, compacts, marks_visible, dropped });
    }
    Some(())
}

fn block(rest: &mut &[u8], forks: &mut Vec<(RelFileLocator, u8, u32)>) -> Option<BlockRef> {
    let told = take(rest)?;
    let fork = (told >> FORK) as usize;
    if fork == forks.len() {
        let relation = locator(rest)?;
        let [number] = array(rest)?;
        forks.push((relation, number, 0));
    }
    let step = take(rest)?;
    let step = (step >> 1) as i64 ^ -((step & 1) as i64);
    let (relation, number, last) = forks.get_mut(fork)?;
    *last = u32::try_from(i64::from(*last) + step).ok()?;
    let mut block = BlockRef::default();
    (block.relation, block.fork, block.block) = (*relation, *number, *last);
    block.will_init = told & WILL_INIT != 0;
    if told & HAS_IMAGE != 0 {
        let method = (told >> METHOD & 3) as usize;
        let compression = method.checked_sub(1).and_then(|at| Compression::ALL.get(at)).copied();
        let length = take(rest)? as u16;
        let apply = told & APPLIED != 0;
        block.image = Some(Image { length, hole_offset: 0, hole_length: 0, compression, apply });
    }
    Some(block)
}

fn drops(rest: &mut &[u8]) -> Option<Dropped> {
    Some(match take(rest)? {
        0 => Dropped::End(locator(rest)?, take(rest)? as u32),
        1 => Dropped::Database(take(rest)? as u32),
        count => Dropped::Relations((2..count).map(|_| locator(rest)).collect::<Option<_>>()?),
    })
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = array(rest)?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn locator(rest: &mut &[u8]) -> Option<RelFileLocator> {
    let mut oid = || array(rest).map(u32::from_le_bytes);
    Some(RelFileLocator { tablespace: oid()?, database: oid()?, relation: oid()? })
}
