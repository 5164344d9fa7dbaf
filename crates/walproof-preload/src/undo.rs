//! Old contents are kept before a change.

use std::ffi::{c_int, CStr};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use walproof_disk::state::{Slot, Void, BITMAP_BYTES, BLOCK, PATH_MAX};
use walproof_disk::{is_written_back, Change, ChangeKind, FileClass};

use crate::fds;
use crate::paths;
use crate::section::{lock, Held};
use crate::shared::Shared;
use crate::sys;

/// Blocks that are read at once.
const BATCH: usize = 16;
/// What a truncation cuts off goes into the log up to this length, into a file of the graveyard beyond it.
const SIDE_BYTES: u64 = 256 * 1024;

/// A tracked file.
#[derive(Clone, Copy)]
pub struct Tracked {
    pub shared: Shared,
    pub place: u64,
    pub slot: &'static Slot,
}

/// An open file, to read old contents from.
struct Reader {
    fd: c_int,
    opened: bool,
}

impl Reader {
    /// The file itself, or when it is open for writing only another way into it.
    fn of(fd: c_int) -> Option<Self> {
        if !fds::is_write_only(fd) {
            return Some(Self { fd, opened: false });
        }
        let mut buffer = [0; PATH_MAX + 2];
        let link = paths::numbered(&[b"/proc/self/fd/"], u64::try_from(fd).ok()?, &mut buffer)?;
        let opened = sys::open_at(libc::AT_FDCWD, link, libc::O_RDONLY | libc::O_CLOEXEC, 0);
        let fd = c_int::try_from(opened).ok().filter(|fd| *fd >= 0)?;
        Some(Self { fd, opened: true })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.opened {
            sys::close(self.fd);
        }
    }
}

impl Tracked {
    pub fn lock(&self) -> Held {
        lock(self.shared.header, &self.slot.lock)
    }

    pub fn class(&self) -> FileClass {
        FileClass::from_code(self.slot.class.load(Relaxed))
    }

    fn root(&self) -> u8 {
        self.slot.root.load(Relaxed) as u8
    }

    fn void(&self, why: Void) {
        self.shared.header.declare_void(why);
    }

    /// Before bytes `from..to` of the file, which has `size` bytes, are written or cut off. Locked.
    fn keep(&self, fd: c_int, from: u64, to: u64, size: u64, sequence: u64, time_ns: u64) {
        // A write beyond the end of the file also changes the block that the end is in.
        let mut block = from / BLOCK;
        let end = to.div_ceil(BLOCK).min(size.div_ceil(BLOCK));
        if from >= to || block >= end {
            return;
        }
        let Some(reader) = Reader::of(fd) else {
            self.void(Void::NotKept);
            return;
        };
        let log = self.shared.undo();
        while block < end {
            let mut records = [0u64; BATCH];
            let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
            let mut count = 0;
            let mut wanted = 0;
            let start = block;
            for (record, part) in records.iter_mut().zip(&mut parts) {
                if block == end {
                    break;
                }
                let Some(index) = log.allocate() else { return };
                let valid = BLOCK.min(size - block * BLOCK);
                *record = index;
                // A whole block even at the end of the file: direct I/O reads nothing smaller.
                *part = libc::iovec { iov_base: self.shared.block(index).cast(), iov_len: BLOCK as usize };
                wanted += valid;
                count += 1;
                block += 1;
            }
            let given = [sys::int(reader.fd), parts.as_ptr() as usize, count, (start * BLOCK) as usize, 0, 0];
            // SAFETY: each part is a record's block, which nobody else uses while it is not in a list.
            let got = unsafe { sys::call(libc::SYS_preadv, given) };
            if got < wanted as isize {
                self.void(Void::NotKept);
            }
            for (number, index) in (start..).zip(records).take(count) {
                let a = number * BLOCK;
                let change = Change { kind: ChangeKind::Data, a, b: BLOCK.min(size - a), sequence, time_ns };
                log.link(self.slot, index, change);
            }
        }
    }

    /// Logs a write of `from..to`, before it happens; returns its number. Locked.
    pub fn before_write(&self, fd: c_int, from: u64, to: u64, size: u64) -> u64 {
        let header = self.shared.header;
        if !self.shared.is_tracking() {
            return 0;
        }
        let now_ns = sys::now_ns(libc::CLOCK_MONOTONIC);
        self.write_back(now_ns);
        let sequence = header.next_sequence();
        self.keep(fd, from, to, size, sequence, now_ns);
        if to > size {
            let change = Change { kind: ChangeKind::Grow, a: size, b: to, sequence, time_ns: now_ns };
            self.shared.undo().append(self.slot, change);
        }
        sequence
    }

    /// Logs a truncation to `to` bytes, before it happens. Locked.
    pub fn before_truncate(&self, fd: c_int, to: u64, size: u64) {
        if to >= size || !self.shared.is_tracking() {
            self.before_write(fd, to, to, size);
            return;
        }
        let now_ns = sys::now_ns(libc::CLOCK_MONOTONIC);
        self.write_back(now_ns);
        let sequence = self.shared.header.next_sequence();
        let whole = to.div_ceil(BLOCK) * BLOCK;
        if size.saturating_sub(whole) > SIDE_BYTES {
            self.keep(fd, to, whole, size, sequence, now_ns);
            if self.keep_aside(fd, whole, size, sequence).is_none() {
                self.void(Void::NotKept);
            }
            let change =
                Change { kind: ChangeKind::Side, a: whole, b: size - whole, sequence, time_ns: now_ns };
            self.shared.undo().append(self.slot, change);
        } else {
            self.keep(fd, to, size, size, sequence, now_ns);
        }
        let change = Change { kind: ChangeKind::Shrink, a: size, b: to, sequence, time_ns: now_ns };
        self.shared.undo().append(self.slot, change);
    }

    /// Before something that libc writes by itself: all of the file may change, and its end may move.
    pub fn before_stream(&self, fd: c_int, size: u64) {
        let sequence = self.before_write(fd, 0, size, size);
        if self.shared.is_tracking() {
            let time_ns = sys::now_ns(libc::CLOCK_MONOTONIC);
            let change = Change { kind: ChangeKind::Grow, a: size, b: u64::MAX, sequence, time_ns };
            self.shared.undo().append(self.slot, change);
        }
    }

    /// Copies `from..to` into a file of the graveyard.
    fn keep_aside(&self, fd: c_int, from: u64, to: u64, sequence: u64) -> Option<()> {
        let reader = Reader::of(fd)?;
        let mut buffer = [0; PATH_MAX + 2];
        let side = paths::in_graveyard(self.shared, self.root(), b's', sequence, &mut buffer)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let opened = sys::open_at(libc::AT_FDCWD, side, flags, 0o600);
        let side = c_int::try_from(opened).ok().filter(|fd| *fd >= 0)?;
        let mut done = from;
        while done < to {
            let copied = sys::copy_range(reader.fd, done, side, done - from, to - done);
            let copied =
                if copied > 0 { copied } else { copy_by_hand(reader.fd, done, side, done - from, to - done) };
            let Some(copied) = u64::try_from(copied).ok().filter(|copied| *copied > 0) else { break };
            done += copied;
        }
        sys::close(side);
        (done >= to).then_some(())
    }

    /// What is as old as the kernel lets dirty data become is on the disk by now: it writes back whole files.
    fn write_back(&self, now_ns: u64) {
        let writeback_ns = self.shared.header.writeback_ns.load(Relaxed);
        let oldest = if writeback_ns == 0 { None } else { self.shared.undo().oldest(self.slot) };
        if oldest.is_some_and(|oldest| is_written_back(oldest.time_ns, now_ns, writeback_ns)) {
            self.forget_through(u64::MAX);
        }
    }

    /// Everything up to a change is durable. Returns whether the size was part of it. Locked.
    pub fn forget_through(&self, sequence: u64) -> bool {
        if self.slot.failed.load(Relaxed) != 0 {
            return false;
        }
        self.shared.undo().drop_through(self.slot, sequence, |change| self.forget(change))
    }

    /// As [`Tracked::forget_through`] for the blocks `first..=last`.
    pub fn forget_blocks(&self, first: u64, last: u64, sequence: u64) {
        if self.slot.failed.load(Relaxed) == 0 {
            let forget = |change| self.forget(change);
            self.shared.undo().drop_blocks(self.slot, first, last, sequence, forget);
        }
    }

    /// The file exists no more. Locked.
    pub fn forget_all(&self) {
        self.shared.undo().drop_through(self.slot, u64::MAX, |change| self.forget(change));
        self.clear_dirty();
    }

    fn forget(&self, change: Change) {
        if change.kind == ChangeKind::Side {
            let mut buffer = [0; PATH_MAX + 2];
            let side: Option<&CStr> =
                paths::in_graveyard(self.shared, self.root(), b's', change.sequence, &mut buffer);
            if let Some(side) = side {
                sys::unlink_at(libc::AT_FDCWD, side, 0);
            }
        }
    }

    /// Marks bytes as written, for the time that a flush takes. Locked.
    pub fn mark_dirty(&self, from: u64, to: u64) {
        if !self.shared.header.device().delays() || to <= from {
            return;
        }
        let (first, end) = (from / BLOCK, to.div_ceil(BLOCK));
        let slot = self.slot;
        let was_clean = slot.dirty_to.load(Relaxed) == 0;
        if was_clean || first < slot.dirty_from.load(Relaxed) {
            slot.dirty_from.store(first, Relaxed);
        }
        slot.dirty_to.fetch_max(end, Relaxed);
        let bitmap = self.shared.bitmap(self.place);
        let new = (first..end).filter(|block| set_bit(bitmap, *block)).count() as u64;
        slot.dirty_blocks.fetch_add(new, Relaxed);
    }

    /// Takes the marks of `first..end` away; returns how many blocks they were. Locked.
    pub fn take_dirty(&self, first: u64, end: u64) -> u64 {
        let slot = self.slot;
        let from = first.max(slot.dirty_from.load(Relaxed));
        let to = end.min(slot.dirty_to.load(Relaxed));
        if from >= to {
            return 0;
        }
        let bitmap = self.shared.bitmap(self.place);
        let inside =
            (from..to.min(BITMAP_BYTES * 8)).filter(|block| clear_bit(bitmap, *block)).count() as u64;
        let before = slot.dirty_blocks.load(Relaxed);
        let all = from == slot.dirty_from.load(Relaxed) && to == slot.dirty_to.load(Relaxed);
        // Blocks beyond the bitmap's end are counted, not marked: they go with the whole file.
        let taken = if all { before } else { inside.min(before) };
        slot.dirty_blocks.store(before - taken, Relaxed);
        if all {
            slot.dirty_from.store(0, Relaxed);
            slot.dirty_to.store(0, Relaxed);
        }
        taken
    }

    /// Takes all marks away; returns how many blocks they were. Locked.
    pub fn clear_dirty(&self) -> u64 {
        self.take_dirty(0, u64::MAX)
    }
}

fn copy_by_hand(from: c_int, from_offset: u64, to: c_int, to_offset: u64, length: u64) -> isize {
    let mut buffer = [0; 16 * 1024];
    let wanted = buffer.len().min(length as usize);
    let Some(place) = buffer.get_mut(..wanted) else { return 0 };
    let got = sys::read_at(from, place, from_offset);
    match usize::try_from(got).ok().and_then(|got| buffer.get(..got)) {
        Some(bytes) if !bytes.is_empty() => sys::write_at(to, bytes, to_offset),
        _ => got,
    }
}

/// Sets a block's bit; returns whether it was new. A block beyond the end always is.
fn set_bit(bitmap: &[AtomicU8], block: u64) -> bool {
    let bit = 1u8 << (block % 8);
    bitmap.get((block / 8) as usize).is_none_or(|byte| byte.fetch_or(bit, Relaxed) & bit == 0)
}

/// Clears a block's bit; whether it was set.
fn clear_bit(bitmap: &[AtomicU8], block: u64) -> bool {
    let bit = 1u8 << (block % 8);
    bitmap
        .get((block / 8) as usize)
        .is_some_and(|byte| byte.load(Relaxed) & bit != 0 && byte.fetch_and(!bit, Relaxed) & bit != 0)
}
