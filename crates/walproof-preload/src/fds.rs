//! What each file descriptor of this process is, found out once.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use walproof_disk::FileId;

use crate::names;
use crate::paths;
use crate::section::{lock_names, Section};
use crate::shared::Shared;
use crate::sys;
use crate::undo::Tracked;

/// Descriptors that are remembered; PostgreSQL uses 1000 at most in each process.
const REMEMBERED: usize = 16_384;

const UNKNOWN: u64 = 0;
const UNTRACKED: u64 = 1;
const FILE: u64 = 2;
const KIND: u64 = 3;
/// Every write is flushed (O_SYNC, O_DSYNC).
const SYNCED: u64 = 4;
/// Writes go to the end (O_APPEND).
const APPENDS: u64 = 8;
/// It cannot be read.
const WRITE_ONLY: u64 = 16;

// kind, flags | generation of the slot, 16 bits from bit 16 | place of the slot, from bit 32
static TABLE: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(UNKNOWN) }; REMEMBERED];

fn entry(fd: c_int) -> Option<&'static AtomicU64> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// The descriptor is closed, or means something new.
pub fn clear(fd: c_int) {
    if let Some(entry) = entry(fd) {
        entry.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// The descriptor `to` became a copy of `from`.
pub fn copy(from: c_int, to: c_int) {
    let value = entry(from).map_or(UNKNOWN, |entry| entry.load(Ordering::Relaxed));
    if let Some(entry) = entry(to) {
        entry.store(value, Ordering::Relaxed);
    }
}

/// It is not tracked.
pub fn set_untracked(fd: c_int) {
    if let Some(entry) = entry(fd) {
        entry.store(UNTRACKED, Ordering::Relaxed);
    }
}

/// It was opened as that file, with those flags of `open`.
pub fn set(fd: c_int, file: &Tracked, opened: c_int) {
    let generation = file.slot.generation.load(Ordering::Acquire) & 0xFFFF;
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    let flags = flag(opened & libc::O_DSYNC != 0, SYNCED)
        | flag(opened & libc::O_APPEND != 0, APPENDS)
        | flag(opened & libc::O_ACCMODE == libc::O_WRONLY, WRITE_ONLY);
    if let Some(entry) = entry(fd) {
        entry.store(FILE | flags | generation << 16 | file.place << 32, Ordering::Relaxed);
    }
}

/// A tracked file, whether each write to it is flushed, and whether it goes to the end.
#[derive(Clone, Copy)]
pub struct OpenFile {
    pub file: Tracked,
    pub synced: bool,
    pub appends: bool,
}

/// Whether nothing can be read from a descriptor.
pub fn is_write_only(fd: c_int) -> bool {
    let value = entry(fd).map_or(UNKNOWN, |entry| entry.load(Ordering::Relaxed));
    if value & KIND == FILE {
        return value & WRITE_ONLY != 0;
    }
    sys::flags_of(fd) & libc::O_ACCMODE == libc::O_WRONLY
}

/// The tracked file that a descriptor is.
pub fn find(shared: Shared, fd: c_int) -> Option<OpenFile> {
    let value = entry(fd).map_or(UNKNOWN, |entry| entry.load(Ordering::Relaxed));
    match value & KIND {
        UNTRACKED => return None,
        FILE => {
            let file = names::at_place(shared, value >> 32)?;
            if file.slot.generation.load(Ordering::Acquire) & 0xFFFF == value >> 16 & 0xFFFF {
                return Some(OpenFile { file, synced: value & SYNCED != 0, appends: value & APPENDS != 0 });
            }
        }
        _ => {}
    }
    let Some(file) = look_up(shared, fd) else {
        set_untracked(fd);
        return None;
    };
    // The kernel may not know of O_DSYNC: see `open_tracked`.
    let flags = sys::flags_of(fd) | if value & SYNCED != 0 { libc::O_DSYNC } else { 0 };
    set(fd, &file, flags);
    Some(OpenFile { file, synced: flags & libc::O_DSYNC != 0, appends: flags & libc::O_APPEND != 0 })
}

fn look_up(shared: Shared, fd: c_int) -> Option<Tracked> {
    let status = sys::status_of(fd).filter(sys::Status::is_file)?;
    // First by its number: it may have no name any more.
    if let Some(place) = shared.files().find(status.id) {
        return names::at_place(shared, place);
    }
    let (root, class) = paths::locate_open(shared, fd)?;
    let _section = Section::enter(shared);
    let _names = lock_names(shared);
    names::enter(shared, status.id, root, class)
}

/// The tracked folder that a descriptor is.
pub fn find_folder(shared: Shared, fd: c_int) -> Option<FileId> {
    let status = sys::status_of(fd).filter(sys::Status::is_folder)?;
    paths::locate_open(shared, fd).map(|_| status.id)
}
