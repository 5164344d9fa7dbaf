//! What a flush makes durable, and how long it takes.
//!
//! It covers what happened before it began, and takes effect when it ends: a write that races with it is not
//! covered, and a flush that the cut interrupts has promised nothing.

use std::ffi::c_int;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use walproof_disk::state::{Action, BLOCK, PATH_MAX};
use walproof_disk::{take_turn, Event, FileClass, FileId, QUANTUM_BYTES};

use crate::fds;
use crate::names;
use crate::paths;
use crate::section::{cut, hang, lock_names, Section};
use crate::shared::Shared;
use crate::sys;
use crate::undo::Tracked;

/// Waits as long as the device needs for a flush of that many bytes.
fn wait_for_device(shared: Shared, bytes: u64) {
    let header = shared.header;
    let device = header.device();
    if !device.delays() {
        return;
    }
    let mut left = bytes;
    loop {
        let part = left.min(QUANTUM_BYTES);
        left -= part;
        let latency = if left == 0 { device.flush_ns } else { 0 };
        let service = device.transfer_ns(part).saturating_add(latency);
        let now = sys::now_ns(libc::CLOCK_MONOTONIC);
        sys::sleep_until(take_turn(&header.free_at_ns, now, service));
        if left == 0 {
            return;
        }
    }
}

/// The writing of some bytes begins, nobody waits for it.
fn begin_writing(shared: Shared, bytes: u64) {
    let service = shared.header.device().transfer_ns(bytes);
    if service > 0 {
        take_turn(&shared.header.free_at_ns, sys::now_ns(libc::CLOCK_MONOTONIC), service);
    }
}

/// Counts a flush that is an event. Does not return when it is the cut; None when the flush fails.
fn goes_through(section: Section, class: FileClass, shared: Shared) -> Option<Section> {
    let event = match class {
        FileClass::Wal => Event::WalFlush,
        FileClass::Relation | FileClass::Map => Event::RelationFlush,
        FileClass::Other => return Some(section),
    };
    match shared.header.count(event) {
        None => Some(section),
        Some(Action::FailFlush) => None,
        Some(Action::Cut) => {
            cut(shared);
            drop(section);
            hang()
        }
    }
}

/// Number of the last change. Names that change right now are waited for, so that each change of names up to
/// this number has happened.
fn present(shared: Shared) -> u64 {
    let _names = lock_names(shared);
    shared.header.sequence.load(Acquire)
}

/// `fsync` or `fdatasync`, whichever the number is, of any descriptor.
pub fn flush(shared: Shared, fd: c_int, number: i64) -> c_int {
    if let Some(open) = fds::find(shared, fd) {
        return flush_file(&open.file, fd, number);
    }
    match fds::find_folder(shared, fd) {
        Some(id) => flush_folder(shared, id, fd, number),
        None => sys::as_int(sys::flush(fd, number)),
    }
}

fn flush_file(file: &Tracked, fd: c_int, number: i64) -> c_int {
    let shared = file.shared;
    let Some(section) = goes_through(Section::enter(shared), file.class(), shared) else {
        // As Linux does: the pages are clean from now on, and will not be written.
        let _section = Section::enter(shared);
        let _held = file.lock();
        file.slot.failed.store(1, Relaxed);
        file.clear_dirty();
        sys::set_errno(libc::EIO);
        return -1;
    };
    // A swallowed flush covers nothing: changes are numbered from 1.
    let sequence = if shared.is_tracking() && !is_swallowed(shared, fd) { present(shared) } else { 0 };
    let held = file.lock();
    let bytes = file.clear_dirty() * BLOCK;
    drop(held);
    drop(section);
    let result = if shared.flushes_really() { sys::as_int(sys::flush(fd, number)) } else { 0 };
    wait_for_device(shared, bytes);
    if result == 0 && sequence > 0 {
        let _section = Section::enter(shared);
        let held = file.lock();
        let resized = file.forget_through(sequence);
        drop(held);
        let _names = lock_names(shared);
        let journal = shared.journal();
        // A flush of a file whose inode has changed commits the journal, one of its data alone does not.
        let id = FileId { device: file.slot.device.load(Relaxed), inode: file.slot.inode.load(Relaxed) };
        if resized || journal.concerns(id, sequence) {
            journal.commit(sequence, |op| names::forget(shared, op));
        }
    }
    result
}

fn is_swallowed(shared: Shared, fd: c_int) -> bool {
    let mut buffer = [0; PATH_MAX + 2];
    shared.header.swallows_some()
        && paths::real_path(fd, &mut buffer)
            .and_then(|path| shared.header.locate(path))
            .is_some_and(|(_, below)| shared.header.swallows(below))
}

fn flush_folder(shared: Shared, id: FileId, fd: c_int, number: i64) -> c_int {
    let Some(section) = goes_through(Section::enter(shared), FileClass::Other, shared) else {
        sys::set_errno(libc::EIO);
        return -1;
    };
    let sequence = if shared.is_tracking() { present(shared) } else { 0 };
    drop(section);
    let result = if shared.flushes_really() { sys::as_int(sys::flush(fd, number)) } else { 0 };
    wait_for_device(shared, BLOCK);
    if result == 0 && shared.is_tracking() {
        let _section = Section::enter(shared);
        let _names = lock_names(shared);
        shared.journal().flush_folder(id, sequence, |op| names::forget(shared, op));
    }
    result
}

/// The flush that is part of a write of `from..to` to a file opened with O_DSYNC or O_SYNC.
pub fn flush_written(file: &Tracked, from: u64, to: u64, sequence: u64) -> bool {
    let shared = file.shared;
    if from >= to {
        return true;
    }
    let Some(section) = goes_through(Section::enter(shared), file.class(), shared) else {
        file.slot.failed.store(1, Relaxed);
        return false;
    };
    let (first, end) = (from / BLOCK, to.div_ceil(BLOCK));
    let held = file.lock();
    let bytes = file.take_dirty(first, end) * BLOCK;
    drop(held);
    drop(section);
    wait_for_device(shared, bytes);
    if shared.is_tracking() {
        let _section = Section::enter(shared);
        let _held = file.lock();
        file.forget_blocks(first, end - 1, sequence);
    }
    true
}

/// `sync_file_range`: the kernel begins to write. Nothing becomes durable.
pub fn start_writing(file: &Tracked, from: u64, to: u64) {
    let shared = file.shared;
    if !shared.header.device().delays() {
        return;
    }
    let _section = Section::enter(shared);
    let _held = file.lock();
    begin_writing(shared, file.take_dirty(from / BLOCK, to.div_ceil(BLOCK)) * BLOCK);
}

/// `sync` and `syncfs`: everything in all roots.
pub fn flush_everything(shared: Shared) {
    let Some(section) = goes_through(Section::enter(shared), FileClass::Other, shared) else { return };
    let sequence = if shared.is_tracking() { present(shared) } else { 0 };
    let mut bytes = 0;
    for_each_file(shared, |file| bytes += file.clear_dirty() * BLOCK);
    drop(section);
    wait_for_device(shared, bytes);
    if shared.is_tracking() {
        let _section = Section::enter(shared);
        for_each_file(shared, |file| {
            file.forget_through(sequence);
        });
        let _names = lock_names(shared);
        shared.journal().flush_all(sequence, |op| names::forget(shared, op));
    }
}

fn for_each_file(shared: Shared, mut act: impl FnMut(&Tracked)) {
    for (id, _) in shared.files().in_use() {
        if let Some(file) = shared.files().find(id).and_then(|place| names::at_place(shared, place)) {
            let _held = file.lock();
            act(&file);
        }
    }
}
