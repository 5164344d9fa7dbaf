//! Calls that open files, and that create, rename or remove names.

use std::ffi::{c_char, c_int, c_uint, CStr};

use libc::{mode_t, AT_FDCWD};
use walproof_disk::state::{Void, PATH_MAX};
use walproof_disk::{Event, FileId, NameChange};

use crate::fds;
use crate::names::{self, About};
use crate::paths::{locate, Located};
use crate::section::{cut, hang, lock_names, Section};
use crate::shared::{shared, Shared};
use crate::sys::{self, arguments, as_int, int};

/// A path that a caller of libc passed; None for a null pointer.
fn path<'a>(given: *const c_char) -> Option<&'a CStr> {
    // SAFETY: a path given to libc is a C string, which lives as long as the call.
    (!given.is_null()).then(|| unsafe { CStr::from_ptr(given) })
}

fn fault() -> isize {
    -(libc::EFAULT as isize)
}

/// Opens a file. What is special about a tracked one: creation is a change of names, O_TRUNC one of contents,
/// and the flush of O_DSYNC is the model's.
pub fn open_any(folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> isize {
    let Some(name) = path(name) else { return fault() };
    let plain = || sys::open_at(folder, name, flags, mode);
    let special = libc::O_CREAT | libc::O_TRUNC | libc::O_DSYNC;
    let located = match shared() {
        Some(shared) if flags & special != 0 && flags & libc::O_TMPFILE != libc::O_TMPFILE => {
            locate(shared, folder, name).map(|at| (shared, at))
        }
        _ => None,
    };
    let result = match &located {
        Some((shared, at)) => open_tracked(*shared, at, folder, name, flags, mode),
        None => plain(),
    };
    if located.is_none() {
        if let Ok(fd) = c_int::try_from(result) {
            fds::clear(fd);
        }
    }
    result
}

fn open_tracked(
    shared: Shared,
    at: &Located,
    folder: c_int,
    name: &CStr,
    flags: c_int,
    mode: mode_t,
) -> isize {
    let mut real = flags & !libc::O_TRUNC;
    if !shared.flushes_really() {
        real &= !libc::O_SYNC;
    }
    let section = Section::enter(shared);
    let names = lock_names(shared);
    let mut created = false;
    let mut result = -(libc::EEXIST as isize);
    if flags & libc::O_CREAT != 0 {
        result = sys::open_at(folder, name, real | libc::O_EXCL, mode);
        created = result >= 0;
    }
    if result == -(libc::EEXIST as isize) && flags & libc::O_EXCL == 0 {
        result = sys::open_at(folder, name, real & !libc::O_CREAT, mode);
    }
    let Some(fd) = c_int::try_from(result).ok().filter(|fd| *fd >= 0) else { return result };
    fds::clear(fd);
    let Some(status) = sys::status_of(fd).filter(sys::Status::is_file) else { return result };
    let file = if created {
        let file = names::enter_created(shared, status.id, at);
        if shared.is_tracking() {
            let sequence = shared.header.next_sequence();
            let about =
                About { change: NameChange::Create, id: status.id, victim: 0, at, to: None, target: b"" };
            names::log(shared, sequence, &about);
        }
        file
    } else {
        names::enter(shared, status.id, at.root, at.class())
    };
    drop(names);
    let Some(file) = file else { return result };
    if flags & libc::O_TRUNC != 0 && status.size > 0 && flags & libc::O_ACCMODE != libc::O_RDONLY {
        let _held = file.lock();
        file.before_truncate(fd, 0, status.size);
        sys::ftruncate(fd, 0);
    }
    drop(section);
    fds::set(fd, &file, flags);
    result
}

// The mode of open is a variadic argument: on x86-64 it is where a third one would be, used or not.

#[no_mangle]
extern "C" fn open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    as_int(open_any(AT_FDCWD, name, flags, mode))
}

#[no_mangle]
extern "C" fn open64(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    as_int(open_any(AT_FDCWD, name, flags, mode))
}

#[no_mangle]
extern "C" fn openat(folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    as_int(open_any(folder, name, flags, mode))
}

#[no_mangle]
extern "C" fn openat64(folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    as_int(open_any(folder, name, flags, mode))
}

#[no_mangle]
extern "C" fn __open_2(name: *const c_char, flags: c_int) -> c_int {
    as_int(open_any(AT_FDCWD, name, flags, 0))
}

#[no_mangle]
extern "C" fn __open64_2(name: *const c_char, flags: c_int) -> c_int {
    as_int(open_any(AT_FDCWD, name, flags, 0))
}

#[no_mangle]
extern "C" fn __openat_2(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
    as_int(open_any(folder, name, flags, 0))
}

#[no_mangle]
extern "C" fn __openat64_2(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
    as_int(open_any(folder, name, flags, 0))
}

#[no_mangle]
extern "C" fn creat(name: *const c_char, mode: mode_t) -> c_int {
    as_int(open_any(AT_FDCWD, name, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode))
}

#[no_mangle]
extern "C" fn creat64(name: *const c_char, mode: mode_t) -> c_int {
    creat(name, mode)
}

#[no_mangle]
extern "C" fn close(fd: c_int) -> c_int {
    fds::clear(fd);
    as_int(sys::close(fd))
}

fn duplicate(from: c_int, result: isize) -> c_int {
    if let Ok(to) = c_int::try_from(result) {
        if to != from {
            fds::copy(from, to);
        }
    }
    as_int(result)
}

#[no_mangle]
extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: no argument is a pointer.
    duplicate(fd, unsafe { sys::call(libc::SYS_dup, arguments([int(fd)])) })
}

#[no_mangle]
extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: no argument is a pointer.
    duplicate(from, unsafe { sys::call(libc::SYS_dup2, arguments([int(from), int(to)])) })
}

#[no_mangle]
extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: no argument is a pointer.
    duplicate(from, unsafe { sys::call(libc::SYS_dup3, arguments([int(from), int(to), int(flags)])) })
}

/// The place of a name, when it is tracked.
fn tracked(folder: c_int, name: &CStr) -> Option<(Shared, Located)> {
    let shared = shared().filter(|shared| shared.is_tracking())?;
    locate(shared, folder, name).map(|at| (shared, at))
}

fn remove_at(folder: c_int, name: *const c_char, flags: c_int) -> isize {
    let Some(name) = path(name) else { return fault() };
    let plain = || sys::unlink_at(folder, name, flags);
    let Some((shared, at)) = tracked(folder, name) else { return plain() };
    let _section = Section::enter(shared);
    let _names = lock_names(shared);
    let Some(status) = sys::status_at(folder, name) else { return plain() };
    let sequence = shared.header.next_sequence();
    let mut target = [0; PATH_MAX];
    let (change, victim, target) = if flags & libc::AT_REMOVEDIR != 0 {
        (NameChange::RemoveFolder, 0, &b""[..])
    } else if status.is_symlink() {
        (NameChange::Unlink, 0, sys::read_link(folder, name, &mut target).unwrap_or_default())
    } else if status.is_file() {
        let kept = names::keep(shared, folder, name, status.id, &at, sequence);
        (NameChange::Unlink, if kept { status.id.inode } else { 0 }, &b""[..])
    } else {
        // Sockets and pipes come and go without a trace.
        return plain();
    };
    let result = plain();
    if result == 0 {
        names::log(shared, sequence, &About { change, id: status.id, victim, at: &at, to: None, target });
    } else if victim != 0 {
        names::keep_no_more(shared, at.root, sequence);
    }
    result
}

#[no_mangle]
extern "C" fn unlink(name: *const c_char) -> c_int {
    as_int(remove_at(AT_FDCWD, name, 0))
}

#[no_mangle]
extern "C" fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
    as_int(remove_at(folder, name, flags))
}

#[no_mangle]
extern "C" fn rmdir(name: *const c_char) -> c_int {
    as_int(remove_at(AT_FDCWD, name, libc::AT_REMOVEDIR))
}

#[no_mangle]
extern "C" fn remove(name: *const c_char) -> c_int {
    let result = remove_at(AT_FDCWD, name, 0);
    if result == -(libc::EISDIR as isize) {
        return as_int(remove_at(AT_FDCWD, name, libc::AT_REMOVEDIR));
    }
    as_int(result)
}

fn rename_any(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> isize {
    let (Some(from), Some(to)) = (path(from), path(to)) else { return fault() };
    let plain = || {
        let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
        let given = [int(from_folder), from, int(to_folder), to, flags as usize, 0];
        let (number, given) = match flags {
            0 => (libc::SYS_renameat, arguments([int(from_folder), from, int(to_folder), to])),
            _ => (libc::SYS_renameat2, given),
        };
        // SAFETY: the paths are C strings.
        unsafe { sys::call(number, given) }
    };
    let (source, target) = (tracked(from_folder, from), tracked(to_folder, to));
    let (shared, source, target) = match (source, target) {
        (Some((shared, source)), Some((_, target))) => (shared, source, target),
        (None, None) => return plain(),
        (Some((shared, _)), None) | (None, Some((shared, _))) => {
            // From or to where nothing is seen.
            shared.header.declare_void(Void::UnseenWrite);
            return plain();
        }
    };
    if flags & libc::RENAME_EXCHANGE != 0 {
        shared.header.declare_void(Void::UnseenWrite);
    }
    let section = Section::enter(shared);
    if shared.header.count(Event::Rename).is_some() {
        cut(shared);
        drop(section);
        hang();
    }
    let _names = lock_names(shared);
    let Some(status) = sys::status_at(from_folder, from) else { return plain() };
    let sequence = shared.header.next_sequence();
    let mut victim = 0;
    if let Some(there) = sys::status_at(to_folder, to).filter(sys::Status::is_file) {
        if there.id == status.id {
            // Two names of one file: rename does nothing then.
            return plain();
        }
        if names::keep(shared, to_folder, to, there.id, &target, sequence) {
            victim = there.id.inode;
        }
    }
    let result = plain();
    if result == 0 {
        let (at, to) = (&source, Some(&target));
        let about = About { change: NameChange::Rename, id: status.id, victim, at, to, target: b"" };
        names::log(shared, sequence, &about);
        reclassify(shared, status.id, &target);
    } else if victim != 0 {
        names::keep_no_more(shared, target.root, sequence);
    }
    result
}

/// A file that has a new name may play another part: a temporary file has become a WAL segment.
fn reclassify(shared: Shared, id: FileId, at: &Located) {
    if let Some(file) = shared.files().find(id).and_then(|place| names::at_place(shared, place)) {
        file.slot.class.store(at.class().code(), std::sync::atomic::Ordering::Relaxed);
    }
}

#[no_mangle]
extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    as_int(rename_any(AT_FDCWD, from, AT_FDCWD, to, 0))
}

#[no_mangle]
extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    as_int(rename_any(from_folder, from, to_folder, to, 0))
}

#[no_mangle]
extern "C" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    as_int(rename_any(from_folder, from, to_folder, to, flags))
}

/// Makes a name with `make` and logs it.
fn make_name(
    folder: c_int,
    name: *const c_char,
    change: NameChange,
    target: &[u8],
    make: impl FnOnce(&CStr) -> isize,
) -> isize {
    let Some(name) = path(name) else { return fault() };
    let Some((shared, at)) = tracked(folder, name) else { return make(name) };
    let _section = Section::enter(shared);
    let _names = lock_names(shared);
    let sequence = shared.header.next_sequence();
    let result = make(name);
    if result == 0 {
        let id = sys::status_at(folder, name).map_or(FileId { device: 0, inode: 0 }, |status| status.id);
        names::log(shared, sequence, &About { change, id, victim: 0, at: &at, to: None, target });
        let leads_out = target.first() == Some(&b'/') && shared.header.locate(target).is_none();
        if change == NameChange::Symlink && leads_out {
            shared.header.declare_void(Void::RootEscaped);
        }
    }
    result
}

fn link_any(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> isize {
    let Some(from) = path(from) else { return fault() };
    if let (None, Some((shared, _))) =
        (tracked(from_folder, from), path(to).and_then(|to| tracked(to_folder, to)))
    {
        shared.header.declare_void(Void::UnseenWrite);
    }
    make_name(to_folder, to, NameChange::Link, b"", |to| {
        sys::link_at(from_folder, from, to_folder, to, flags)
    })
}

#[no_mangle]
extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    as_int(link_any(AT_FDCWD, from, AT_FDCWD, to, 0))
}

#[no_mangle]
extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    as_int(link_any(from_folder, from, to_folder, to, flags))
}

fn symlink_any(target: *const c_char, folder: c_int, name: *const c_char) -> isize {
    let Some(target) = path(target) else { return fault() };
    make_name(folder, name, NameChange::Symlink, target.to_bytes(), |name| {
        let given = [target.as_ptr() as usize, int(folder), name.as_ptr() as usize];
        // SAFETY: both are C strings.
        unsafe { sys::call(libc::SYS_symlinkat, arguments(given)) }
    })
}

#[no_mangle]
extern "C" fn symlink(target: *const c_char, name: *const c_char) -> c_int {
    as_int(symlink_any(target, AT_FDCWD, name))
}

#[no_mangle]
extern "C" fn symlinkat(target: *const c_char, folder: c_int, name: *const c_char) -> c_int {
    as_int(symlink_any(target, folder, name))
}

fn make_folder(folder: c_int, name: *const c_char, mode: mode_t) -> isize {
    make_name(folder, name, NameChange::MakeFolder, b"", |name| {
        let given = [int(folder), name.as_ptr() as usize, mode as usize];
        // SAFETY: the path is a C string.
        unsafe { sys::call(libc::SYS_mkdirat, arguments(given)) }
    })
}

#[no_mangle]
extern "C" fn mkdir(name: *const c_char, mode: mode_t) -> c_int {
    as_int(make_folder(AT_FDCWD, name, mode))
}

#[no_mangle]
extern "C" fn mkdirat(folder: c_int, name: *const c_char, mode: mode_t) -> c_int {
    as_int(make_folder(folder, name, mode))
}
