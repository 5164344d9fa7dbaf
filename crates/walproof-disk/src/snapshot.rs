//! The shared state as read back from its file, by a process that has not mapped it.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use crate::files::Files;
use crate::journal::Journal;
use crate::state::{Config, Geometry, Header, Op, Record, RootField, Slot, Text, Void, PATH_MAX};
use crate::undo::UndoLog;
use crate::Error;

/// A copy of the state, without bitmaps and blocks.
#[derive(Debug)]
pub struct Snapshot {
    /// Configuration and counters.
    pub header: Header,
    slots: Vec<Slot>,
    records: Vec<Record>,
    ops: Vec<Op>,
}

impl Snapshot {
    /// The state at its beginning. None when the configuration cannot be stored.
    ///
    /// # Errors
    /// [`Error::Config`] when there are too many roots or a path is too long.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let bytes = config.encode().ok_or(Error::Config)?;
        let header = Header::decode(&bytes)?;
        let Geometry { slots, records, ops } = config.geometry;
        Ok(Self {
            header,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            records: (0..records).map(|_| Record::default()).collect(),
            ops: (0..ops).map(|_| Op::decode(&[])).collect(),
        })
    }

    /// The header alone, while processes go on: each figure is true at some moment of the reading.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_header(
        mut read_at: impl FnMut(u64, &mut [u8]) -> std::io::Result<()>,
    ) -> Result<Header, Error> {
        let mut bytes = [0; size_of::<Header>()];
        read_at(0, &mut bytes)?;
        Header::decode(&bytes)
    }

    /// From the file; `read_at` fills a buffer from an offset. No process may change the file meanwhile.
    ///
    /// # Errors
    /// [`Error::NotAState`], or what reading said.
    pub fn read(mut read_at: impl FnMut(u64, &mut [u8]) -> std::io::Result<()>) -> Result<Self, Error> {
        let mut load = |at: u64, bytes: u64| -> Result<Vec<u8>, Error> {
            let mut buffer = vec![0; usize::try_from(bytes).map_err(|_| Error::NotAState)?];
            read_at(at, &mut buffer)?;
            Ok(buffer)
        };
        let header = Header::decode(&load(0, size_of::<Header>() as u64)?)?;
        let geometry = header.geometry().ok_or(Error::NotAState)?;
        let used = header.fresh_record.load(Ordering::Relaxed).min(geometry.records);
        let slots = load(geometry.slots_at(), geometry.slots * size_of::<Slot>() as u64)?;
        let records = load(geometry.records_at(), used * size_of::<Record>() as u64)?;
        // Only as much of the ring as was ever used: it is long, and its places are large.
        let ops_used = header.ops_head.load(Ordering::Relaxed).min(geometry.ops);
        let ops = load(geometry.ops_at(), ops_used * size_of::<Op>() as u64)?;
        let mut ops: Vec<Op> = ops.chunks_exact(size_of::<Op>()).map(Op::decode).collect();
        ops.resize_with(usize::try_from(geometry.ops).map_err(|_| Error::NotAState)?, || Op::decode(&[]));
        Ok(Self {
            slots: slots.chunks_exact(size_of::<Slot>()).map(Slot::decode).collect(),
            records: records.chunks_exact(size_of::<Record>()).map(Record::decode).collect(),
            ops,
            header,
        })
    }

    /// The undo log.
    #[must_use]
    pub fn undo(&self) -> UndoLog<'_> {
        UndoLog::new(&self.header, &self.records)
    }

    /// The table of files.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files::new(&self.header, &self.slots)
    }

    /// The changes of names.
    #[must_use]
    pub fn journal(&self) -> Journal<'_> {
        Journal::new(&self.header, &self.ops)
    }

    /// Why the run is void; empty when it is not.
    #[must_use]
    pub fn void(&self) -> Vec<Void> {
        self.header.why_void()
    }
}

/// Reads one field after the other; zero beyond the end.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn word(&mut self) -> AtomicU64 {
        let (bytes, rest) = self.0.split_at_checked(8).unwrap_or_default();
        self.0 = rest;
        AtomicU64::new(bytes.try_into().map(u64::from_le_bytes).unwrap_or(0))
    }

    fn words<const N: usize>(&mut self) -> [AtomicU64; N] {
        std::array::from_fn(|_| self.word())
    }

    fn text(&mut self) -> Text {
        let length = self.word();
        let (bytes, rest) = self.0.split_at_checked(PATH_MAX).unwrap_or_default();
        self.0 = rest;
        Text::from_parts(length, std::array::from_fn(|at| AtomicU8::new(bytes.get(at).copied().unwrap_or(0))))
    }
}

impl Slot {
    fn decode(bytes: &[u8]) -> Self {
        let mut from = Cursor(bytes);
        Self {
            device: from.word(),
            inode: from.word(),
            state: from.word(),
            generation: from.word(),
            lock: from.word(),
            head: from.word(),
            tail: from.word(),
            class: from.word(),
            root: from.word(),
            failed: from.word(),
            dirty_from: from.word(),
            dirty_to: from.word(),
            dirty_blocks: from.word(),
        }
    }
}

impl Record {
    fn decode(bytes: &[u8]) -> Self {
        let mut from = Cursor(bytes);
        Self {
            next: from.word(),
            kind: from.word(),
            a: from.word(),
            b: from.word(),
            sequence: from.word(),
            time_ns: from.word(),
        }
    }
}

impl Op {
    fn decode(bytes: &[u8]) -> Self {
        let mut from = Cursor(bytes);
        Self {
            kind: from.word(),
            sequence: from.word(),
            time_ns: from.word(),
            device: from.word(),
            inode: from.word(),
            victim: from.word(),
            parent_a: from.words(),
            parent_b: from.words(),
            flushed: from.word(),
            roots: from.word(),
            path_a: from.text(),
            path_b: from.text(),
        }
    }
}

impl Header {
    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = Cursor(bytes);
        let header = Self {
            magic: from.word(),
            slots: from.word(),
            records: from.word(),
            ops: from.word(),
            tracking: from.word(),
            real_flush: from.word(),
            strict: from.word(),
            writeback_ns: from.word(),
            flush_ns: from.word(),
            write_bytes_per_s: from.word(),
            seed: from.word(),
            sequence: from.word(),
            attached: from.word(),
            busy: from.word(),
            cut: from.word(),
            cut_monotonic_ns: from.word(),
            void: from.word(),
            trigger_event: from.word(),
            trigger_left: from.word(),
            trigger_action: from.word(),
            counts: from.words(),
            free_at_ns: from.word(),
            records_used_max: from.word(),
            free_records: from.word(),
            fresh_record: from.word(),
            records_used: from.word(),
            names_lock: from.word(),
            ops_head: from.word(),
            ops_tail: from.word(),
            journal_sequence: from.word(),
            swallowed: from.text(),
            roots_used: from.word(),
            roots: std::array::from_fn(|_| RootField { path: from.text(), graveyard: from.text() }),
        };
        header.geometry().map(|_| header).ok_or(Error::NotAState)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::state::{Root, BLOCK};

    #[test]
    fn what_was_encoded_is_read() {
        let config = Config {
            roots: vec![
                Root { path: b"/a".to_vec(), graveyard: b"/g".to_vec() },
                Root { path: b"/a/wal".to_vec(), graveyard: b"/h".to_vec() },
            ],
            tracking: true,
            real_flush: false,
            strict: true,
            writeback_ns: 30,
            device: Device { flush_ns: 5, write_bytes_per_s: 6 },
            seed: 7,
            swallowed: b"pg_xact".to_vec(),
            geometry: Geometry { slots: 8, records: 4, ops: 2 },
        };
        let bytes = config.encode().unwrap();
        let snapshot = Snapshot::read(|at, buffer| {
            let at = usize::try_from(at).unwrap();
            for (place, byte) in buffer.iter_mut().enumerate() {
                *byte = bytes.get(at + place).copied().unwrap_or(0);
            }
            Ok(())
        })
        .unwrap();
        let header = &snapshot.header;
        assert_eq!(header.geometry(), Some(config.geometry));
        assert_eq!(header.device(), config.device);
        assert_eq!(header.writeback_ns.load(Ordering::Relaxed), 30);
        assert_eq!(header.seed.load(Ordering::Relaxed), 7);
        assert_eq!(header.strict.load(Ordering::Relaxed), 1);
        assert_eq!(header.roots().count(), 2);
        assert!(header.swallows(b"pg_xact/0000") && !header.swallows(b"pg_wal/0") && !header.swallows(b"pg"));
        assert_eq!(header.locate(b"/a/base/1"), Some((0, &b"base/1"[..])));
        assert_eq!(header.locate(b"/a/wal/0"), Some((1, &b"0"[..])));
        assert_eq!(header.locate(b"/b"), None);
        assert!(snapshot.void().is_empty());
        assert_eq!(config.geometry.total_bytes() % BLOCK, 0);
    }

    #[test]
    fn other_files_are_refused() {
        let read = Snapshot::read(|_, _| Ok(()));
        assert!(matches!(read, Err(Error::NotAState)), "{read:?}");
    }
}
