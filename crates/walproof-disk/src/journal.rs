//! Changes of names, and when they become durable.
//!
//! A journalling filesystem (ext4, xfs) writes its changes in order: a flush that commits the journal makes
//! all earlier changes durable, and of the rest a prefix survives. Strict POSIX promises less: a change is
//! durable when every folder that it touched was flushed afterwards, and of the rest any part survives.
//! PostgreSQL relies on the former: md.c never flushes the folder of a new relation file.
//!
//! The ring holds what is not durable yet. All of this happens under the lock of names.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::files::FileId;
use crate::state::{Header, Op, Void, PATH_MAX};

/// What happened to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// A file was created.
    Create,
    /// A file or symbolic link was removed; a file is in the graveyard, `u<number>`, a link's target is path b.
    Unlink,
    /// Path a became path b. A file that was there before is in the graveyard.
    Rename,
    /// The file got a second name, path a.
    Link,
    /// A folder was made.
    MakeFolder,
    /// A folder was removed.
    RemoveFolder,
    /// A symbolic link was made; path b is its target.
    Symlink,
}

impl NameChange {
    const ALL: [Self; 7] = [
        Self::Create,
        Self::Unlink,
        Self::Rename,
        Self::Link,
        Self::MakeFolder,
        Self::RemoveFolder,
        Self::Symlink,
    ];

    pub(crate) fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// A change of names, before it is logged.
#[derive(Clone, Copy, Debug)]
pub struct NameEntry<'a> {
    /// What happens.
    pub change: NameChange,
    /// Its number.
    pub sequence: u64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The file or folder.
    pub id: FileId,
    /// Inode of the file that is replaced or removed and kept in the graveyard; 0: none.
    pub victim: u64,
    /// Root and path below it.
    pub a: (u8, &'a [u8]),
    /// Folder of that path.
    pub parent_a: FileId,
    /// The second path, or a target.
    pub b: (u8, &'a [u8]),
    /// Folder of the second path; that of the first if there is only one path.
    pub parent_b: FileId,
}

/// The ring, over the ops of the shared state.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a> {
    header: &'a Header,
    ops: &'a [Op],
}

impl<'a> Journal<'a> {
    /// Over these ops.
    #[must_use]
    pub const fn new(header: &'a Header, ops: &'a [Op]) -> Self {
        Self { header, ops }
    }

    /// Logs a change; declares the run void when it cannot.
    pub fn append(&self, entry: &NameEntry<'_>) {
        let head = self.header.ops_head.load(Acquire);
        let length = self.ops.len() as u64;
        if head - self.header.ops_tail.load(Acquire) >= length {
            self.header.declare_void(Void::NamesFull);
            return;
        }
        let Some(op) = self.op(head) else { return };
        if !(op.path_a.set(entry.a.1) && op.path_b.set(entry.b.1)) {
            self.header.declare_void(Void::PathTooLong);
            return;
        }
        op.kind.store(entry.change as u64, Relaxed);
        op.sequence.store(entry.sequence, Relaxed);
        op.time_ns.store(entry.time_ns, Relaxed);
        op.device.store(entry.id.device, Relaxed);
        op.inode.store(entry.id.inode, Relaxed);
        op.victim.store(entry.victim, Relaxed);
        for (field, id) in [(&op.parent_a, entry.parent_a), (&op.parent_b, entry.parent_b)] {
            let [device, inode] = field;
            device.store(id.device, Relaxed);
            inode.store(id.inode, Relaxed);
        }
        op.flushed.store(0, Relaxed);
        op.roots.store(u64::from(entry.a.0) | u64::from(entry.b.0) << 8, Relaxed);
        self.header.ops_head.store(head + 1, Release);
    }

    fn op(&self, number: u64) -> Option<&'a Op> {
        self.ops.get(usize::try_from(number.checked_rem(self.ops.len() as u64)?).ok()?)
    }

    /// Changes that are not durable, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &'a Op> + 'a {
        let journal = *self;
        let tail = self.header.ops_tail.load(Acquire);
        let head = self.header.ops_head.load(Acquire).min(tail + self.ops.len() as u64);
        (tail..head).filter_map(move |number| journal.op(number))
    }

    /// Whether a file has changes of names up to `sequence` that are not durable: then a flush of the file
    /// commits the journal.
    #[must_use]
    pub fn concerns(&self, id: FileId, sequence: u64) -> bool {
        self.pending().any(|op| op.sequence.load(Relaxed) <= sequence && op_id(op) == id)
    }

    /// The journal was committed up to `sequence`. Calls `forget` for what became durable.
    pub fn commit(&self, sequence: u64, forget: impl FnMut(&Op)) {
        self.header.journal_sequence.fetch_max(sequence, Relaxed);
        if self.header.strict.load(Relaxed) == 0 {
            self.advance(forget);
        }
    }

    /// A folder was flushed, and all that happened in it up to `sequence` with it.
    pub fn flush_folder(&self, folder: FileId, sequence: u64, forget: impl FnMut(&Op)) {
        if self.header.strict.load(Relaxed) == 0 {
            self.commit(sequence, forget);
            return;
        }
        for op in self.pending().filter(|op| op.sequence.load(Relaxed) <= sequence) {
            let bit = |field, bit| if parent(field) == folder { bit } else { 0 };
            op.flushed.fetch_or(bit(&op.parent_a, 1) | bit(&op.parent_b, 2), Relaxed);
        }
        self.advance(forget);
    }

    /// Everything up to `sequence` is durable, by age or by `sync`.
    pub fn flush_all(&self, sequence: u64, forget: impl FnMut(&Op)) {
        for op in self.pending().filter(|op| op.sequence.load(Relaxed) <= sequence) {
            op.flushed.store(3, Relaxed);
        }
        self.header.journal_sequence.fetch_max(sequence, Relaxed);
        self.advance(forget);
    }

    /// The number of the newest change of names that is at least this old.
    #[must_use]
    pub fn older_than(&self, age_ns: u64, now_ns: u64) -> Option<u64> {
        let old = |op: &&Op| now_ns.saturating_sub(op.time_ns.load(Relaxed)) > age_ns;
        self.pending().take_while(old).last().map(|op| op.sequence.load(Relaxed))
    }

    fn advance(&self, mut forget: impl FnMut(&Op)) {
        while let Some(op) = self.pending().next() {
            if !is_durable(self.header, op) {
                break;
            }
            forget(op);
            self.header.ops_tail.fetch_add(1, Release);
        }
    }
}

fn is_durable(header: &Header, op: &Op) -> bool {
    if header.strict.load(Relaxed) == 0 {
        return op.sequence.load(Relaxed) <= header.journal_sequence.load(Relaxed);
    }
    op.flushed.load(Relaxed) == 3
}

/// The file that a change of names is about.
#[must_use]
pub fn op_id(op: &Op) -> FileId {
    FileId { device: op.device.load(Relaxed), inode: op.inode.load(Relaxed) }
}

fn parent(field: &[std::sync::atomic::AtomicU64; 2]) -> FileId {
    let [device, inode] = field;
    FileId { device: device.load(Relaxed), inode: inode.load(Relaxed) }
}

/// A change of names as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameOp {
    /// What happened.
    pub change: NameChange,
    /// Its number.
    pub sequence: u64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The file or folder.
    pub id: FileId,
    /// The file that was replaced or removed and is in the graveyard.
    pub victim: Option<FileId>,
    /// Root and path below it.
    pub a: (u8, Vec<u8>),
    /// The second path or the target.
    pub b: (u8, Vec<u8>),
    /// Whether strict POSIX has made it durable.
    pub flushed: bool,
}

impl NameOp {
    /// From the shared state; None when it is damaged.
    #[must_use]
    pub fn read(op: &Op) -> Option<Self> {
        let id = op_id(op);
        let victim = op.victim.load(Relaxed);
        let [a, b, ..] = op.roots.load(Relaxed).to_le_bytes();
        let mut buffer = [0; PATH_MAX];
        Some(Self {
            change: NameChange::from_code(op.kind.load(Relaxed))?,
            sequence: op.sequence.load(Relaxed),
            time_ns: op.time_ns.load(Relaxed),
            id,
            victim: (victim != 0).then_some(FileId { inode: victim, ..id }),
            a: (a, op.path_a.read(&mut buffer).to_vec()),
            b: (b, op.path_b.read(&mut buffer).to_vec()),
            flushed: op.flushed.load(Relaxed) == 3,
        })
    }
}
