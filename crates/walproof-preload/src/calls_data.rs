//! Calls that write, cut, extend or flush files.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void, CStr};

use libc::{iovec, off_t, size_t, ssize_t};
use walproof_disk::state::{Void, BLOCK};
use walproof_disk::{mix, Event, FileClass};

use crate::calls_stdio::original;
use crate::fds::{self, OpenFile};
use crate::flush;
use crate::section::{cut, hang, Section};
use crate::shared::{shared, Shared};
use crate::sys::{self, arguments, as_int, as_libc, int};

fn tracked(fd: c_int) -> Option<(Shared, OpenFile)> {
    let shared = shared()?;
    fds::find(shared, fd).map(|open| (shared, open))
}

/// A write of some buffers: at an offset, or where the descriptor stands.
struct Write<'a> {
    fd: c_int,
    buffers: &'a [iovec],
    offset: Option<off_t>,
}

impl Write<'_> {
    fn length(&self) -> u64 {
        self.buffers.iter().fold(0, |sum: u64, buffer| sum.saturating_add(buffer.iov_len as u64))
    }

    /// Writes all of it, as the caller asked.
    fn all(&self) -> isize {
        let (buffers, count) = (self.buffers.as_ptr() as usize, self.buffers.len());
        let given = match self.offset {
            Some(offset) => [int(self.fd), buffers, count, offset as usize, 0, 0],
            None => arguments([int(self.fd), buffers, count]),
        };
        let number = if self.offset.is_some() { libc::SYS_pwritev } else { libc::SYS_writev };
        // SAFETY: the buffers are those that the caller of libc passed.
        unsafe { sys::call(number, given) }
    }

    /// Writes the first bytes of it at an offset: what a cut leaves of a torn write.
    fn first(&self, at: u64, bytes: u64) {
        let (mut at, mut left) = (at, bytes);
        for buffer in self.buffers {
            let part = left.min(buffer.iov_len as u64);
            let given = [int(self.fd), buffer.iov_base as usize, part as usize, at as usize, 0, 0];
            // SAFETY: a beginning of a buffer that the caller of libc passed.
            unsafe { sys::call(libc::SYS_pwrite64, given) };
            at += part;
            left -= part;
        }
    }

    fn run(&self) -> ssize_t {
        let Some((shared, open)) = tracked(self.fd) else { return as_libc(self.all()) };
        let length = self.length();
        let file = open.file;
        let section = Section::enter(shared);
        let held = file.lock();
        let Some(status) = sys::status_of(self.fd) else { return as_libc(self.all()) };
        let from = match self.offset {
            _ if open.appends => status.size,
            Some(offset) => offset.max(0) as u64,
            None => sys::position(self.fd).max(0) as u64,
        };
        let to = from.saturating_add(length);
        let event = match file.class() {
            FileClass::Wal => Some(Event::WalWrite),
            FileClass::Relation | FileClass::Map => Some(Event::RelationWrite),
            FileClass::Other => None,
        };
        let cut_before = event.is_some_and(|event| shared.header.count(event).is_some());
        let mut cut_within = !cut_before && length > BLOCK && shared.header.count(Event::TornWrite).is_some();
        if !cut_before && length > BLOCK && event == Some(Event::RelationWrite) {
            cut_within |= shared.header.count(Event::TornPage).is_some();
            if file.class() == FileClass::Map {
                cut_within |= shared.header.count(Event::TornMap).is_some();
            }
        }
        let mut sequence = 0;
        let mut result = 0;
        if !cut_before {
            sequence = file.before_write(self.fd, from, to, status.size);
        }
        if cut_within {
            let blocks = length.div_ceil(BLOCK) - 1;
            let seed = shared.header.seed.load(std::sync::atomic::Ordering::Relaxed);
            self.first(from, (1 + mix(seed ^ sequence) % blocks) * BLOCK);
        } else if !cut_before {
            result = self.all();
            if let Ok(written) = u64::try_from(result) {
                file.mark_dirty(from, from + written);
            }
        }
        if cut_before || cut_within {
            cut(shared);
        }
        drop(held);
        drop(section);
        if cut_before || cut_within {
            hang();
        }
        if open.synced && result > 0 && !flush::flush_written(&file, from, from + result as u64, sequence) {
            sys::set_errno(libc::EIO);
            return -1;
        }
        as_libc(result)
    }
}

fn write_one(fd: c_int, buffer: *const c_void, length: size_t, offset: Option<off_t>) -> ssize_t {
    if tracked(fd).is_none() {
        let given = [int(fd), buffer as usize, length, offset.unwrap_or(0) as usize, 0, 0];
        let number = if offset.is_some() { libc::SYS_pwrite64 } else { libc::SYS_write };
        // SAFETY: as the caller of libc passed them.
        return as_libc(unsafe { sys::call(number, given) });
    }
    let buffers = [iovec { iov_base: buffer.cast_mut(), iov_len: length }];
    Write { fd, buffers: &buffers, offset }.run()
}

fn write_many(fd: c_int, buffers: *const iovec, count: c_int, offset: Option<off_t>) -> ssize_t {
    let Some(count) = usize::try_from(count).ok().filter(|_| !buffers.is_null()) else {
        sys::set_errno(libc::EINVAL);
        return -1;
    };
    // SAFETY: the caller of libc passes that many.
    let buffers = unsafe { std::slice::from_raw_parts(buffers, count) };
    Write { fd, buffers, offset }.run()
}

#[no_mangle]
extern "C" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    write_one(fd, buffer, length, None)
}

#[no_mangle]
extern "C" fn pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    write_one(fd, buffer, length, Some(offset))
}

#[no_mangle]
extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    write_one(fd, buffer, length, Some(offset))
}

#[no_mangle]
extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    write_many(fd, buffers, count, None)
}

#[no_mangle]
extern "C" fn pwritev(fd: c_int, buffers: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    write_many(fd, buffers, count, Some(offset))
}

#[no_mangle]
extern "C" fn pwritev64(fd: c_int, buffers: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    write_many(fd, buffers, count, Some(offset))
}

/// The flags of a single write (RWF_DSYNC and others) are not passed on: they promise more than is asked of
/// the simulated disk, and PostgreSQL uses none.
#[no_mangle]
extern "C" fn pwritev2(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    offset: off_t,
    _flags: c_int,
) -> ssize_t {
    write_many(fd, buffers, count, (offset != -1).then_some(offset))
}

/// What pwritev2 is called in programs with 64-bit file offsets.
#[no_mangle]
extern "C" fn pwritev64v2(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    pwritev2(fd, buffers, count, offset, flags)
}

fn truncate_open(fd: c_int, size: off_t) -> isize {
    let Ok(to) = u64::try_from(size) else { return -(libc::EINVAL as isize) };
    let Some((shared, open)) = tracked(fd) else { return sys::ftruncate(fd, to) };
    let _section = Section::enter(shared);
    let _held = open.file.lock();
    if let Some(status) = sys::status_of(fd) {
        open.file.before_truncate(fd, to, status.size);
    }
    sys::ftruncate(fd, to)
}

#[no_mangle]
extern "C" fn ftruncate(fd: c_int, size: off_t) -> c_int {
    as_int(truncate_open(fd, size))
}

#[no_mangle]
extern "C" fn ftruncate64(fd: c_int, size: off_t) -> c_int {
    as_int(truncate_open(fd, size))
}

#[no_mangle]
extern "C" fn truncate(path: *const c_char, size: off_t) -> c_int {
    let given = arguments([path as usize, size as usize]);
    if shared().is_none() || path.is_null() {
        // SAFETY: the path is what the caller of libc passed.
        return as_int(unsafe { sys::call(libc::SYS_truncate, given) });
    }
    // SAFETY: a path given to libc is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let fd = sys::open_at(libc::AT_FDCWD, path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return as_int(fd);
    }
    let fd = fd as c_int;
    fds::clear(fd);
    let result = truncate_open(fd, size);
    fds::clear(fd);
    sys::close(fd);
    as_int(result)
}

#[no_mangle]
extern "C" fn truncate64(path: *const c_char, size: off_t) -> c_int {
    truncate(path, size)
}

/// Before a part of a file changes its size or contents in another way than by a write.
fn with_change(fd: c_int, from: off_t, length: off_t, keep: bool, act: impl FnOnce() -> isize) -> isize {
    let Some((shared, open)) = tracked(fd) else { return act() };
    let (from, length) = (from.max(0) as u64, length.max(0) as u64);
    let to = from.saturating_add(length);
    let _section = Section::enter(shared);
    let _held = open.file.lock();
    if let Some(status) = sys::status_of(fd) {
        let start = if keep { from } else { to };
        open.file.before_write(fd, start, to, status.size);
    }
    let result = act();
    if keep && result > 0 {
        open.file.mark_dirty(from, from.saturating_add(result as u64));
    }
    result
}

#[no_mangle]
extern "C" fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int {
    let result = with_change(fd, offset, length, false, || {
        let given = [int(fd), 0, offset as usize, length as usize, 0, 0];
        // SAFETY: no argument is a pointer.
        let result = unsafe { sys::call(libc::SYS_fallocate, given) };
        if result != -(libc::EOPNOTSUPP as isize) {
            return result;
        }
        // glibc writes a zero into each block then. That is not seen, but changes nothing except the size.
        original::posix_fallocate(fd, offset, length).map_or(result, |number| -(number as isize))
    });
    (-result) as c_int
}

#[no_mangle]
extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int {
    posix_fallocate(fd, offset, length)
}

#[no_mangle]
extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    let moves = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    if mode & moves != 0 {
        void_if_tracked(fd, Void::UnseenWrite);
    }
    let erases = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
    // Without growing the file where it keeps its size.
    let length_seen = if mode & libc::FALLOC_FL_KEEP_SIZE != 0 && !erases { 0 } else { length };
    as_int(with_change(fd, offset, length_seen, erases, || {
        let given = [int(fd), int(mode), offset as usize, length as usize, 0, 0];
        // SAFETY: no argument is a pointer.
        unsafe { sys::call(libc::SYS_fallocate, given) }
    }))
}

#[no_mangle]
extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    fallocate(fd, mode, offset, length)
}

#[no_mangle]
extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: an offset that the caller of libc passed is valid, or null.
    let given = unsafe { to_offset.as_ref() }.copied();
    let at = given.unwrap_or_else(|| sys::position(to) as off_t);
    as_libc(with_change(to, at, length as off_t, true, || {
        let given = [int(from), from_offset as usize, int(to), to_offset as usize, length, flags as usize];
        // SAFETY: as the caller of libc passed them.
        unsafe { sys::call(libc::SYS_copy_file_range, given) }
    }))
}

fn void_if_tracked(fd: c_int, why: Void) {
    if let Some((shared, _)) = tracked(fd).filter(|(shared, _)| shared.is_tracking()) {
        shared.header.declare_void(why);
    }
}

#[no_mangle]
extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    void_if_tracked(to, Void::UnseenWrite);
    let given = [int(to), int(from), offset as usize, count, 0, 0];
    // SAFETY: as the caller of libc passed them.
    as_libc(unsafe { sys::call(libc::SYS_sendfile, given) })
}

#[no_mangle]
extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    sendfile(to, from, offset, count)
}

#[no_mangle]
extern "C" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    void_if_tracked(to, Void::UnseenWrite);
    let given = [int(from), from_offset as usize, int(to), to_offset as usize, length, flags as usize];
    // SAFETY: as the caller of libc passed them.
    as_libc(unsafe { sys::call(libc::SYS_splice, given) })
}

#[no_mangle]
extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if fd >= 0 && flags & libc::MAP_SHARED != 0 && protection & libc::PROT_WRITE != 0 {
        void_if_tracked(fd, Void::UnseenWrite);
    }
    let given = [address as usize, length, int(protection), int(flags), int(fd), offset as usize];
    // SAFETY: as the caller of libc passed them.
    as_libc(unsafe { sys::call(libc::SYS_mmap, given) }) as *mut c_void
}

#[no_mangle]
extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    mmap(address, length, protection, flags, fd, offset)
}

/// Sharing extents with another file (cp --reflink) is refused on a tracked file, so that its user copies.
#[no_mangle]
extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    const FICLONE: c_ulong = 0x4004_9409;
    const FICLONERANGE: c_ulong = 0x4020_940D;
    if matches!(request, FICLONE | FICLONERANGE) && tracked(fd).is_some() {
        sys::set_errno(libc::EOPNOTSUPP);
        return -1;
    }
    let given = [int(fd), request as usize, argument as usize, 0, 0, 0];
    // SAFETY: as the caller of libc passed them.
    as_int(unsafe { sys::call(libc::SYS_ioctl, given) })
}

fn flush_any(fd: c_int, number: c_long) -> c_int {
    match shared() {
        Some(shared) => flush::flush(shared, fd, number),
        None => as_int(sys::flush(fd, number)),
    }
}

#[no_mangle]
extern "C" fn fsync(fd: c_int) -> c_int {
    flush_any(fd, libc::SYS_fsync)
}

#[no_mangle]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    flush_any(fd, libc::SYS_fdatasync)
}

#[no_mangle]
extern "C" fn sync_file_range(fd: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int {
    if let Some((shared, open)) = tracked(fd) {
        let from = offset.max(0) as u64;
        // A length of zero means: to the end.
        let to = if length == 0 { u64::MAX - BLOCK } else { from.saturating_add(length.max(0) as u64) };
        flush::start_writing(&open.file, from, to);
        if !shared.flushes_really() {
            return 0;
        }
    }
    let given = [int(fd), offset as usize, length as usize, flags as usize, 0, 0];
    // SAFETY: no argument is a pointer.
    as_int(unsafe { sys::call(libc::SYS_sync_file_range, given) })
}

/// All roots are taken for one filesystem, and any filesystem for theirs: PostgreSQL calls it for each root.
#[no_mangle]
extern "C" fn syncfs(fd: c_int) -> c_int {
    if let Some(shared) = shared() {
        flush::flush_everything(shared);
        if !shared.flushes_really() {
            return 0;
        }
    }
    as_int(sys::flush(fd, libc::SYS_syncfs))
}

#[no_mangle]
extern "C" fn sync() {
    match shared() {
        Some(shared) => {
            flush::flush_everything(shared);
            if shared.flushes_really() {
                sys::flush(0, libc::SYS_sync);
            }
        }
        None => {
            sys::flush(0, libc::SYS_sync);
        }
    }
}
