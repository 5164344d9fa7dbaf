//! The undo log: for each file, in order, the changes that a power cut could take back.
//!
//! The live files are what the server sees; the log remembers what the disk would still hold. A change is
//! logged before it happens and dropped at the end of a flush that began after it. Every version of a block
//! between two flushes is kept, because the disk may hold any of them.
//!
//! Nothing here allocates memory, waits or calls the system: it runs inside a server's `write`. The lists of
//! one file are changed under that file's lock only; the stack of free records is lock-free.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::state::{Header, Record, Slot, Void, BLOCK};

/// What a change did. `a` and `b` are the two figures of [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A block was overwritten: the block's offset `a`, and how many bytes of it existed, `b`. They are in
    /// the record's block.
    Data,
    /// A longer part was cut off: from offset `a`, `b` bytes. They are in a file of the graveyard, `s<number>`.
    Side,
    /// The file grew from `a` to `b` bytes; `b` is `u64::MAX` when the new size is not known yet.
    Grow,
    /// The file was cut from `a` to `b` bytes.
    Shrink,
}

impl ChangeKind {
    const fn code(self) -> u64 {
        match self {
            Self::Data => 1,
            Self::Side => 2,
            Self::Grow => 3,
            Self::Shrink => 4,
        }
    }

    pub(crate) const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Data),
            2 => Some(Self::Side),
            3 => Some(Self::Grow),
            4 => Some(Self::Shrink),
            _ => None,
        }
    }

    const fn is_size(self) -> bool {
        matches!(self, Self::Grow | Self::Shrink)
    }
}

/// A change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// See [`ChangeKind`].
    pub a: u64,
    /// See [`ChangeKind`].
    pub b: u64,
    /// Its number; the parts of one write share it.
    pub sequence: u64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Whether the kernel has written a change of that age back by itself (vm.dirty_expire_centisecs).
#[must_use]
pub const fn is_written_back(change_ns: u64, now_ns: u64, writeback_ns: u64) -> bool {
    writeback_ns != 0 && now_ns.saturating_sub(change_ns) > writeback_ns
}

/// Age at which the kernel commits changes of names: ext4 does every 5 s what it does every 30 s to data.
#[must_use]
pub const fn commit_age_ns(writeback_ns: u64) -> u64 {
    writeback_ns / 6
}

/// The log, over the records of the shared state.
#[derive(Clone, Copy, Debug)]
pub struct UndoLog<'a> {
    header: &'a Header,
    records: &'a [Record],
}

impl<'a> UndoLog<'a> {
    /// Over these records.
    #[must_use]
    pub const fn new(header: &'a Header, records: &'a [Record]) -> Self {
        Self { header, records }
    }

    fn record(&self, link: u64) -> Option<&'a Record> {
        self.records.get(usize::try_from(link.checked_sub(1)?).ok()?)
    }

    /// A free record's index, whose block may be filled before [`UndoLog::link`]. Declares the run void when
    /// there is none.
    #[must_use]
    pub fn allocate(&self) -> Option<u64> {
        let index = self.pop_free().or_else(|| {
            let fresh = self.header.fresh_record.fetch_add(1, AcqRel);
            (fresh < self.records.len() as u64).then_some(fresh)
        });
        if index.is_some() {
            let used = self.header.records_used.fetch_add(1, Relaxed) + 1;
            self.header.records_used_max.fetch_max(used, Relaxed);
        } else {
            self.header.fresh_record.fetch_sub(1, AcqRel);
            self.header.declare_void(Void::UndoFull);
        }
        index
    }

    fn pop_free(&self) -> Option<u64> {
        let mut top = self.header.free_records.load(Acquire);
        loop {
            let next = self.record(top & 0xFFFF_FFFF)?.next.load(Acquire);
            // The generation makes a stack that went and came back in between look different.
            let new = ((top >> 32).wrapping_add(1) << 32) | next;
            match self.header.free_records.compare_exchange_weak(top, new, AcqRel, Acquire) {
                Ok(_) => return (top & 0xFFFF_FFFF).checked_sub(1),
                Err(now) => top = now,
            }
        }
    }

    fn free(&self, link: u64) {
        let Some(record) = self.record(link) else { return };
        let mut top = self.header.free_records.load(Acquire);
        loop {
            record.next.store(top & 0xFFFF_FFFF, Release);
            let new = ((top >> 32).wrapping_add(1) << 32) | link;
            match self.header.free_records.compare_exchange_weak(top, new, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        self.header.records_used.fetch_sub(1, Relaxed);
    }

    /// Appends a change, in an allocated record, to the list of a file that the caller has locked.
    pub fn link(&self, slot: &Slot, index: u64, change: Change) {
        let link = index + 1;
        let Some(record) = self.record(link) else { return };
        record.next.store(0, Relaxed);
        record.kind.store(change.kind.code(), Relaxed);
        record.a.store(change.a, Relaxed);
        record.b.store(change.b, Relaxed);
        record.sequence.store(change.sequence, Relaxed);
        record.time_ns.store(change.time_ns, Relaxed);
        match self.record(slot.tail.load(Acquire)) {
            Some(last) => last.next.store(link, Release),
            None => slot.head.store(link, Release),
        }
        slot.tail.store(link, Release);
    }

    /// Allocates and links; false when the log is full.
    pub fn append(&self, slot: &Slot, change: Change) -> bool {
        self.allocate().map(|index| self.link(slot, index, change)).is_some()
    }

    /// The changes of a file with the index of their record, oldest first.
    pub fn changes(&self, slot: &Slot) -> impl Iterator<Item = (u64, Change)> + 'a {
        let log = *self;
        let mut link = slot.head.load(Acquire);
        // A list is never longer than the log: a damaged one ends.
        (0..self.records.len()).map_while(move |_| {
            let record = log.record(link)?;
            let index = link - 1;
            link = record.next.load(Acquire);
            Some((index, read(record)?))
        })
    }

    /// The oldest change of a file.
    #[must_use]
    pub fn oldest(&self, slot: &Slot) -> Option<Change> {
        self.changes(slot).next().map(|(_, change)| change)
    }

    /// A flush that began when `sequence` was the last change has ended: what it covers is durable. Calls
    /// `forget` for each change that goes; returns whether the file's size was among them.
    pub fn drop_through(&self, slot: &Slot, sequence: u64, mut forget: impl FnMut(Change)) -> bool {
        let mut resized = false;
        loop {
            let link = slot.head.load(Acquire);
            let Some(record) = self.record(link) else { break };
            let Some(change) = read(record).filter(|change| change.sequence <= sequence) else { break };
            let next = record.next.load(Acquire);
            slot.head.store(next, Release);
            if next == 0 {
                slot.tail.store(0, Release);
            }
            resized |= change.kind.is_size();
            forget(change);
            self.free(link);
        }
        resized
    }

    /// A synchronous write of the blocks `first..=last` has ended: their older versions are gone, the rest of
    /// the file is as unflushed as before. When the file's size has changed too, all of it is flushed, as a
    /// disk must to find the data again.
    pub fn drop_blocks(&self, slot: &Slot, first: u64, last: u64, sequence: u64, forget: impl FnMut(Change)) {
        if self.changes(slot).any(|(_, change)| change.kind != ChangeKind::Data) {
            self.drop_through(slot, sequence, forget);
            return;
        }
        let mut previous: Option<&Record> = None;
        let mut link = slot.head.load(Acquire);
        while let Some(record) = self.record(link) {
            let next = record.next.load(Acquire);
            let block = record.a.load(Relaxed) / BLOCK;
            if (first..=last).contains(&block) && record.sequence.load(Relaxed) <= sequence {
                match previous {
                    Some(previous) => previous.next.store(next, Release),
                    None => slot.head.store(next, Release),
                }
                if next == 0 {
                    let tail = previous.map_or(0, |_| self.last_link(slot));
                    slot.tail.store(tail, Release);
                }
                self.free(link);
            } else {
                previous = Some(record);
            }
            link = next;
        }
    }

    fn last_link(&self, slot: &Slot) -> u64 {
        let mut link = slot.head.load(Acquire);
        for _ in 0..self.records.len() {
            match self.record(link).map_or(0, |record| record.next.load(Acquire)) {
                0 => break,
                next => link = next,
            }
        }
        link
    }
}

fn read(record: &Record) -> Option<Change> {
    Some(Change {
        kind: ChangeKind::from_code(record.kind.load(Relaxed))?,
        a: record.a.load(Relaxed),
        b: record.b.load(Relaxed),
        sequence: record.sequence.load(Relaxed),
        time_ns: record.time_ns.load(Relaxed),
    })
}
