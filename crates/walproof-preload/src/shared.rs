//! The mapped state.

use std::ffi::{c_int, CStr};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use walproof_disk::state::{Geometry, Header, Op, Record, Slot, BITMAP_BYTES, BLOCK};
use walproof_disk::{Files, Journal, UndoLog};

use crate::sys;

/// The environment variable that names the state file.
const VARIABLE: &CStr = c"WALPROOF_DISK_STATE";

static MAPPED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// The state of the simulated disk, shared by all processes of a server.
#[derive(Clone, Copy)]
pub struct Shared {
    pub header: &'static Header,
    geometry: Geometry,
    base: *mut u8,
}

/// The state, when the environment named one.
#[inline]
pub fn shared() -> Option<Shared> {
    let base = MAPPED.load(Ordering::Acquire);
    if base.is_null() {
        return None;
    }
    // SAFETY: a pointer in MAPPED is that of a mapping that is never removed, is as long as its header's
    // geometry says, and has a header at its start, whose fields are all atomics.
    let header: &'static Header = unsafe { &*base.cast::<Header>() };
    header.geometry().map(|geometry| Shared { header, geometry, base })
}

impl Shared {
    fn part<T>(self, offset: u64, count: u64) -> &'static [T] {
        // SAFETY: private, called with a part of the geometry only: inside the mapping, aligned to a block,
        // of a type made of atomics, for which any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.base.add(offset as usize).cast::<T>(), count as usize) }
    }

    pub fn files(self) -> Files<'static> {
        Files::new(self.header, self.part::<Slot>(self.geometry.slots_at(), self.geometry.slots))
    }

    pub fn undo(self) -> UndoLog<'static> {
        UndoLog::new(self.header, self.part::<Record>(self.geometry.records_at(), self.geometry.records))
    }

    pub fn journal(self) -> Journal<'static> {
        Journal::new(self.header, self.part::<Op>(self.geometry.ops_at(), self.geometry.ops))
    }

    /// The bitmap of the file at a place in the table.
    pub fn bitmap(self, place: u64) -> &'static [AtomicU8] {
        let place = place.min(self.geometry.slots - 1);
        self.part(self.geometry.bitmaps_at() + place * BITMAP_BYTES, BITMAP_BYTES)
    }

    /// Where a record's block is, for the kernel to read an old version into.
    pub fn block(self, record: u64) -> *mut u8 {
        let record = record.min(self.geometry.records - 1);
        let offset = self.geometry.blocks_at() + record * BLOCK;
        // SAFETY: inside the mapping, whose length follows from the same geometry.
        unsafe { self.base.add(offset as usize) }
    }

    pub fn is_tracking(self) -> bool {
        self.header.tracking.load(Ordering::Relaxed) != 0
    }

    pub fn flushes_really(self) -> bool {
        self.header.real_flush.load(Ordering::Relaxed) != 0
    }
}

/// Maps the state when the program starts; after `fork` it stays mapped, after `exec` this runs again.
extern "C" fn attach() {
    // SAFETY: getenv reads the environment, which nobody changes while libraries are initialised.
    let path = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: a value of the environment is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let fd = sys::open_at(libc::AT_FDCWD, path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    let Ok(fd) = c_int::try_from(fd) else { return };
    if fd < 0 {
        return;
    }
    let length = sys::status_of(fd).map_or(0, |status| status.size);
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let given = [0, length as usize, protection, libc::MAP_SHARED as usize, sys::int(fd), 0];
    // SAFETY: a new mapping at an address that the kernel chooses.
    let address = unsafe { sys::call(libc::SYS_mmap, given) };
    sys::close(fd);
    if (-4095..=0).contains(&address) || length < size_of::<Header>() as u64 {
        return;
    }
    let base = address as *mut u8;
    // SAFETY: mapped just now, and at least as long as a header.
    let header: &'static Header = unsafe { &*base.cast::<Header>() };
    if header.geometry().is_some_and(|geometry| geometry.total_bytes() == length && geometry.slots > 0) {
        header.attached.fetch_add(1, Ordering::AcqRel);
        sys::be_punctual();
        sys::watch_forks();
        MAPPED.store(base, Ordering::Release);
    }
}

#[used]
#[link_section = ".init_array"]
static ATTACH: extern "C" fn() = attach;
