//! The state that all processes of a server share: one file, mapped by each of them.
//!
//! ```text
//!   Header                       configuration, counters, the moment of the cut
//!   Slot   x geometry.slots      one for each file that was written: its list of changes
//!   Record x geometry.records    a change that a power cut could undo
//!   Op     x geometry.ops        ring of changes to names: create, rename, unlink ...
//!   bitmap x geometry.slots      blocks written since the last flush, for the time that the flush takes
//!   block  x geometry.records    what a record's block held before, 4 KiB each
//! ```
//!
//! Every field is an atomic, so that references to it may be shared; the file is sparse and starts as zeros,
//! which is the valid empty state of everything but the header. This module knows the shape; the meaning is in
//! [`crate::undo`], [`crate::files`] and [`crate::journal`].

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use crate::device::Device;
use crate::event::Event;

/// Bytes of a block: the page of the kernel's cache, the unit in which old contents are kept.
pub const BLOCK: u64 = 4096;
/// The most roots: a data directory, its WAL elsewhere, tablespaces.
pub const ROOTS_MAX: usize = 8;
/// The most bytes of a path; PostgreSQL's own stay far below that.
pub const PATH_MAX: usize = 512;
/// Bytes of the bitmap of one file: 1 GiB, PostgreSQL's segment of a relation, in blocks.
pub const BITMAP_BYTES: u64 = 32 * 1024;

const MAGIC: u64 = u64::from_le_bytes(*b"wpdisk04");

/// Text of limited length. Written once, before anybody can see it, or under a lock.
#[repr(C)]
#[derive(Debug)]
pub struct Text {
    length: AtomicU64,
    bytes: [AtomicU8; PATH_MAX],
}

impl Text {
    pub(crate) const fn from_parts(length: AtomicU64, bytes: [AtomicU8; PATH_MAX]) -> Self {
        Self { length, bytes }
    }

    /// Stores `text`; false when it is too long, and then nothing is stored.
    #[must_use]
    pub fn set(&self, text: &[u8]) -> bool {
        let fits = text.len() <= PATH_MAX;
        if fits {
            for (place, byte) in self.bytes.iter().zip(text) {
                place.store(*byte, Ordering::Relaxed);
            }
            self.length.store(text.len() as u64, Ordering::Release);
        }
        fits
    }

    /// Copies the text into `buffer` and returns the part that it fills.
    pub fn read<'a>(&self, buffer: &'a mut [u8; PATH_MAX]) -> &'a [u8] {
        let length = usize::try_from(self.length.load(Ordering::Acquire)).unwrap_or(0).min(PATH_MAX);
        for (byte, place) in buffer.iter_mut().zip(&self.bytes).take(length) {
            *byte = place.load(Ordering::Relaxed);
        }
        buffer.get(..length).unwrap_or_default()
    }

    /// Whether `path` begins with this text; never when that is empty.
    pub fn begins(&self, path: &[u8]) -> bool {
        let length = usize::try_from(self.length.load(Ordering::Acquire)).unwrap_or(0).min(PATH_MAX);
        length > 0
            && path.len() >= length
            && path
                .iter()
                .zip(&self.bytes)
                .take(length)
                .all(|(byte, place)| *byte == place.load(Ordering::Relaxed))
    }

    /// If `path` is this text or lies below it: the rest without the separator.
    pub fn rest_of<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::try_from(self.length.load(Ordering::Acquire)).unwrap_or(0).min(PATH_MAX);
        let (head, rest) = path.split_at_checked(length)?;
        let same = head.iter().zip(&self.bytes).all(|(byte, place)| *byte == place.load(Ordering::Relaxed));
        match rest {
            _ if length == 0 || !same => None,
            [] => Some(rest),
            [b'/', rest @ ..] => Some(rest),
            _ => None,
        }
    }
}

/// A folder whose files are tracked.
#[repr(C)]
#[derive(Debug)]
pub struct RootField {
    /// Its real path.
    pub path: Text,
    /// A folder of the same filesystem in which unlinked files are kept until their unlinking is durable.
    pub graveyard: Text,
}

/// Why a run is void: something happened that the model did not see, so that no verdict may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// All undo records are in use.
    UndoFull,
    /// All file slots are in use.
    FilesFull,
    /// All places for changes of names are in use.
    NamesFull,
    /// A path is longer than [`PATH_MAX`].
    PathTooLong,
    /// A symbolic link leads out of the roots.
    RootEscaped,
    /// A write in a way that cannot be followed: a shared mapping, splice, sendfile.
    UnseenWrite,
    /// A process ended inside a tracked call.
    ProcessDied,
    /// An old version could not be kept.
    NotKept,
}

impl Void {
    /// All reasons; the position is the bit in the header.
    pub const ALL: [Self; 8] = [
        Self::UndoFull,
        Self::FilesFull,
        Self::NamesFull,
        Self::PathTooLong,
        Self::RootEscaped,
        Self::UnseenWrite,
        Self::ProcessDied,
        Self::NotKept,
    ];

    /// One line for the user.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UndoFull => "more data was written and not flushed than the undo log holds",
            Self::FilesFull => "more files were written than the simulated disk has places for",
            Self::NamesFull => {
                "more files were created, renamed or removed without a flush than there is room for"
            }
            Self::PathTooLong => "a path is too long",
            Self::RootEscaped => "a symbolic link leads out of the folders of the simulated disk",
            Self::UnseenWrite => {
                "a file was written in a way that cannot be followed (mapping, splice or sendfile)"
            }
            Self::ProcessDied => "a server process was killed in the middle of a write",
            Self::NotKept => "the old contents of a file could not be kept",
        }
    }
}

/// What the trigger does at its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Cut the power.
    Cut,
    /// Let the flush fail once with EIO and drop what it should have written.
    FailFlush,
}

/// The header of the state file.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) slots: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) ops: AtomicU64,
    /// 1: undo is kept. 0: only time passes as on the device.
    pub tracking: AtomicU64,
    /// 1: flushes reach the real disk too.
    pub real_flush: AtomicU64,
    /// 1: strict POSIX, 0: as a journal.
    pub strict: AtomicU64,
    /// Age at which the kernel writes data back by itself; 0: never.
    pub writeback_ns: AtomicU64,
    /// [`Device::flush_ns`].
    pub flush_ns: AtomicU64,
    /// [`Device::write_bytes_per_s`].
    pub write_bytes_per_s: AtomicU64,
    /// Decides how much of a torn write happens.
    pub seed: AtomicU64,
    /// Number of the last change.
    pub sequence: AtomicU64,
    /// Processes that have mapped the state since it was made.
    pub attached: AtomicU64,
    /// Processes inside a tracked call.
    pub busy: AtomicU64,
    /// 1 after the power was cut.
    pub cut: AtomicU64,
    /// CLOCK_MONOTONIC of the cut.
    pub cut_monotonic_ns: AtomicU64,
    /// Bits of [`Void`].
    pub void: AtomicU64,
    /// 0, or 1 + [`Event::index`] of what is waited for.
    pub trigger_event: AtomicU64,
    /// Events that are still to pass, the one that triggers included.
    pub trigger_left: AtomicU64,
    /// 0: cut, 1: EIO.
    pub trigger_action: AtomicU64,
    /// Events so far.
    pub counts: [AtomicU64; Event::ALL.len()],
    /// End of the device's queue, CLOCK_MONOTONIC.
    pub free_at_ns: AtomicU64,
    /// Records that have ever been in use at the same time: the memory of the undo log.
    pub records_used_max: AtomicU64,
    /// Stack of free records: generation in the upper half, 1 + index in the lower.
    pub(crate) free_records: AtomicU64,
    /// First record that was never used.
    pub(crate) fresh_record: AtomicU64,
    pub(crate) records_used: AtomicU64,
    /// Thread that holds the lock of names (ring and slot table), 0 when nobody does.
    pub names_lock: AtomicU64,
    /// Ring of changes of names: the next to be used, and the first that is not durable.
    pub ops_head: AtomicU64,
    /// See `ops_head`.
    pub ops_tail: AtomicU64,
    /// Changes of names up to this number are durable (journal).
    pub journal_sequence: AtomicU64,
    /// Files whose path below a root begins like this are never made durable, although their flush says so: a
    /// step that is broken on purpose. Empty: none.
    pub swallowed: Text,
    pub(crate) roots_used: AtomicU64,
    pub(crate) roots: [RootField; ROOTS_MAX],
}

/// A file that was written.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    /// Device and inode number; both 0 when free.
    pub device: AtomicU64,
    /// See `device`.
    pub inode: AtomicU64,
    /// 0 never used, 1 in use, 2 given back.
    pub state: AtomicU64,
    /// Counts uses, so that an old reference to a slot is noticed.
    pub generation: AtomicU64,
    /// Thread that holds the lock, 0 when nobody does.
    pub lock: AtomicU64,
    /// First change, 1 + index; 0 when there is none.
    pub head: AtomicU64,
    /// Last change.
    pub tail: AtomicU64,
    /// [`crate::FileClass::code`].
    pub class: AtomicU64,
    /// Root in which it was found.
    pub root: AtomicU64,
    /// 1 after a flush failed: what it should have written is lost, whatever is flushed later.
    pub failed: AtomicU64,
    /// First block in the bitmap that may be set.
    pub dirty_from: AtomicU64,
    /// Behind the last.
    pub dirty_to: AtomicU64,
    /// Blocks in the bitmap, and blocks beyond it each time that they are written.
    pub dirty_blocks: AtomicU64,
}

/// A change of a file, which a power cut undoes unless a flush came between.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Record {
    /// The next change of the file, or the next free record: 1 + index.
    pub next: AtomicU64,
    /// [`crate::ChangeKind`].
    pub kind: AtomicU64,
    /// Its first figure.
    pub a: AtomicU64,
    /// Its second figure.
    pub b: AtomicU64,
    /// Number of the change; the parts of one write share it.
    pub sequence: AtomicU64,
    /// CLOCK_MONOTONIC.
    pub time_ns: AtomicU64,
}

/// A change of names.
#[repr(C)]
#[derive(Debug)]
pub struct Op {
    /// [`crate::NameChange`].
    pub kind: AtomicU64,
    /// Number of the change.
    pub sequence: AtomicU64,
    /// CLOCK_MONOTONIC.
    pub time_ns: AtomicU64,
    /// The file or folder itself.
    pub device: AtomicU64,
    /// See `device`.
    pub inode: AtomicU64,
    /// Inode of what was there before and is kept in the graveyard under the sequence number; 0: nothing.
    pub victim: AtomicU64,
    /// The folder of the first path.
    pub parent_a: [AtomicU64; 2],
    /// The folder of the second path, or that of the first again.
    pub parent_b: [AtomicU64; 2],
    /// Bit 0 and 1: the folder was flushed since (strict).
    pub flushed: AtomicU64,
    /// Root of each path: `a | b << 8`.
    pub roots: AtomicU64,
    /// The path that is created or removed, or the old one.
    pub path_a: Text,
    /// The new path, or the target of a symbolic link.
    pub path_b: Text,
}

/// How many of each the state has, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Files; a power of two.
    pub slots: u64,
    /// Undo records.
    pub records: u64,
    /// Changes of names.
    pub ops: u64,
}

impl Geometry {
    /// Room for `undo_bytes` of undone data, and for as many files and names as an hour of a server needs.
    #[must_use]
    pub const fn for_undo(undo_bytes: u64) -> Self {
        Self { slots: 16_384, records: undo_bytes / BLOCK, ops: 65_536 }
    }

    /// Byte offset of the first slot.
    #[must_use]
    pub const fn slots_at(&self) -> u64 {
        align(size_of::<Header>() as u64)
    }

    /// Byte offset of the first record.
    #[must_use]
    pub const fn records_at(&self) -> u64 {
        align(self.slots_at() + self.slots * size_of::<Slot>() as u64)
    }

    /// Byte offset of the ring.
    #[must_use]
    pub const fn ops_at(&self) -> u64 {
        align(self.records_at() + self.records * size_of::<Record>() as u64)
    }

    /// Byte offset of the first file's bitmap.
    #[must_use]
    pub const fn bitmaps_at(&self) -> u64 {
        align(self.ops_at() + self.ops * size_of::<Op>() as u64)
    }

    /// Byte offset of the first record's block.
    #[must_use]
    pub const fn blocks_at(&self) -> u64 {
        self.bitmaps_at() + self.slots * BITMAP_BYTES
    }

    /// Bytes of the file; sparse.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.blocks_at() + self.records * BLOCK
    }
}

const fn align(offset: u64) -> u64 {
    offset.div_ceil(BLOCK) * BLOCK
}

/// A folder whose files are tracked, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its real path.
    pub path: Vec<u8>,
    /// See [`RootField::graveyard`].
    pub graveyard: Vec<u8>,
}

/// What a state is made for.
#[derive(Clone, Debug)]
pub struct Config {
    /// Folders, the data directory first.
    pub roots: Vec<Root>,
    /// Whether undo is kept; without it only time passes as on the device.
    pub tracking: bool,
    /// Whether flushes reach the real disk as well.
    pub real_flush: bool,
    /// Whether changes of names become durable as strict POSIX has it; otherwise as a journal does.
    pub strict: bool,
    /// Age at which the kernel writes dirty data back by itself; 0: never.
    pub writeback_ns: u64,
    /// The device whose time passes.
    pub device: Device,
    /// Decides how much of a torn write happens.
    pub seed: u64,
    /// See [`Header::swallowed`].
    pub swallowed: Vec<u8>,
    /// Sizes.
    pub geometry: Geometry,
}

impl Config {
    /// The first bytes of a new state file, whose rest are zeros. None when there are too many roots or a path
    /// is too long.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size_of::<Header>()];
        let mut put = |at: usize, value: u64| {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        };
        put(offset_of!(Header, magic), MAGIC);
        put(offset_of!(Header, slots), self.geometry.slots);
        put(offset_of!(Header, records), self.geometry.records);
        put(offset_of!(Header, ops), self.geometry.ops);
        put(offset_of!(Header, tracking), u64::from(self.tracking));
        put(offset_of!(Header, real_flush), u64::from(self.real_flush));
        put(offset_of!(Header, strict), u64::from(self.strict));
        put(offset_of!(Header, writeback_ns), self.writeback_ns);
        put(offset_of!(Header, flush_ns), self.device.flush_ns);
        put(offset_of!(Header, write_bytes_per_s), self.device.write_bytes_per_s);
        put(offset_of!(Header, seed), self.seed);
        put(offset_of!(Header, roots_used), self.roots.len() as u64);
        put_text(&mut bytes, offset_of!(Header, swallowed), &self.swallowed)?;
        if self.roots.len() > ROOTS_MAX {
            return None;
        }
        for (place, root) in self.roots.iter().enumerate() {
            let at = offset_of!(Header, roots) + place * size_of::<RootField>();
            put_text(&mut bytes, at + offset_of!(RootField, path), &root.path)?;
            put_text(&mut bytes, at + offset_of!(RootField, graveyard), &root.graveyard)?;
        }
        Some(bytes)
    }
}

fn put_text(bytes: &mut [u8], at: usize, text: &[u8]) -> Option<()> {
    if text.len() > PATH_MAX {
        return None;
    }
    let length = at + offset_of!(Text, length);
    bytes.get_mut(length..length + 8)?.copy_from_slice(&(text.len() as u64).to_le_bytes());
    let start = at + offset_of!(Text, bytes);
    bytes.get_mut(start..start + text.len())?.copy_from_slice(text);
    Some(())
}

impl Header {
    /// The sizes, if these bytes are a header of this version.
    #[must_use]
    pub fn geometry(&self) -> Option<Geometry> {
        if self.magic.load(Ordering::Acquire) != MAGIC {
            return None;
        }
        let [slots, records, ops] =
            [&self.slots, &self.records, &self.ops].map(|n| n.load(Ordering::Relaxed));
        Some(Geometry { slots, records, ops })
    }

    /// The device whose time passes.
    #[must_use]
    pub fn device(&self) -> Device {
        Device {
            flush_ns: self.flush_ns.load(Ordering::Relaxed),
            write_bytes_per_s: self.write_bytes_per_s.load(Ordering::Relaxed),
        }
    }

    /// The roots in use.
    pub fn roots(&self) -> impl Iterator<Item = &RootField> {
        let used = usize::try_from(self.roots_used.load(Ordering::Relaxed)).unwrap_or(0);
        self.roots.iter().take(used)
    }

    /// Root and path below it of a real path.
    #[must_use]
    pub fn locate<'a>(&self, path: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let mut found: Option<(u8, &'a [u8])> = None;
        for (place, root) in (0u8..).zip(self.roots()) {
            if let Some(rest) = root.path.rest_of(path) {
                // Of a root in a root the inner one.
                if found.is_none_or(|(_, other)| rest.len() < other.len()) {
                    found = Some((place, rest));
                }
            }
        }
        found
    }

    /// Declares the run void.
    pub fn declare_void(&self, why: Void) {
        self.void.fetch_or(1 << (why as u64), Ordering::AcqRel);
    }

    /// Why the run is void; empty when it is not.
    #[must_use]
    pub fn why_void(&self) -> Vec<Void> {
        let bits = self.void.load(Ordering::Relaxed);
        Void::ALL.into_iter().filter(|why| bits & (1 << (*why as u64)) != 0).collect()
    }

    /// The number of a new change.
    pub fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Counts an event; what is to happen, if this is the one that was waited for.
    pub fn count(&self, event: Event) -> Option<Action> {
        if let Some(counter) = self.counts.get(event.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if self.trigger_event.load(Ordering::Acquire) != event.index() as u64 + 1 {
            return None;
        }
        if self.trigger_left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        Some(if self.trigger_action.load(Ordering::Acquire) == 0 { Action::Cut } else { Action::FailFlush })
    }

    /// Cuts the power at this time; false when it was cut before.
    pub fn cut_power(&self, monotonic_ns: u64) -> bool {
        let first = self.cut.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.cut_monotonic_ns.store(monotonic_ns, Ordering::Release);
        }
        first
    }

    /// Whether flushes of the file of that path below a root are swallowed.
    #[must_use]
    pub fn swallows(&self, below: &[u8]) -> bool {
        self.swallowed.begins(below)
    }

    /// Whether any flush is swallowed.
    #[must_use]
    pub fn swallows_some(&self) -> bool {
        self.swallowed.length.load(Ordering::Relaxed) != 0
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire) != 0
    }
}

/// Offsets in the file of what a controller reads and writes without mapping it.
pub mod offsets {
    use super::{offset_of, Header};

    /// [`Header::trigger_event`], written last.
    pub const TRIGGER_EVENT: u64 = offset_of!(Header, trigger_event) as u64;
    /// [`Header::trigger_left`].
    pub const TRIGGER_LEFT: u64 = offset_of!(Header, trigger_left) as u64;
    /// [`Header::trigger_action`].
    pub const TRIGGER_ACTION: u64 = offset_of!(Header, trigger_action) as u64;
    /// [`Header::cut`], written last.
    pub const CUT: u64 = offset_of!(Header, cut) as u64;
    /// [`Header::cut_monotonic_ns`].
    pub const CUT_MONOTONIC_NS: u64 = offset_of!(Header, cut_monotonic_ns) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn text() -> Text {
        Text { length: AtomicU64::new(0), bytes: [const { AtomicU8::new(0) }; PATH_MAX] }
    }

    #[test]
    fn a_path_below_a_root_is_found_and_a_neighbour_is_not() {
        let root = text();
        assert!(root.set(b"/pg/data"));
        assert_eq!(root.rest_of(b"/pg/data/base/5"), Some(&b"base/5"[..]));
        assert_eq!(root.rest_of(b"/pg/data"), Some(&b""[..]));
        assert_eq!(root.rest_of(b"/pg/data2/base"), None);
        assert_eq!(root.rest_of(b"/pg"), None);
        assert!(!root.set(&[b'x'; PATH_MAX + 1]));
        assert_eq!(root.read(&mut [0; PATH_MAX]), b"/pg/data");
    }

    #[test]
    fn parts_of_the_file_do_not_overlap() {
        let geometry = Geometry::for_undo(1 << 30);
        assert!(geometry.slots_at() >= size_of::<Header>() as u64);
        assert!(geometry.records_at() >= geometry.slots_at() + geometry.slots * size_of::<Slot>() as u64);
        assert!(geometry.ops_at() >= geometry.records_at() + geometry.records * size_of::<Record>() as u64);
        assert!(geometry.bitmaps_at() >= geometry.ops_at() + geometry.ops * size_of::<Op>() as u64);
        assert_eq!(geometry.blocks_at() % BLOCK, 0);
        assert_eq!(geometry.total_bytes() - geometry.blocks_at(), 1 << 30);
    }
}
