//! Streams. libc writes them by calls of its own, which nobody sees: the whole file counts as unflushed from
//! the moment that it is opened. PostgreSQL uses them for nothing that its WAL depends on.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::AT_FDCWD;
use walproof_disk::NameChange;

use crate::fds;
use crate::names::{self, About};
use crate::paths::{locate, Located};
use crate::section::{lock_names, Section};
use crate::shared::{shared, Shared};
use crate::sys;

/// The functions of libc that are called under their own names.
pub mod original {
    use super::{c_char, c_int, c_void, AtomicPtr, CStr, Ordering};

    struct Function {
        name: &'static CStr,
        found: AtomicPtr<c_void>,
    }

    impl Function {
        const fn named(name: &'static CStr) -> Self {
            Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
        }

        fn get(&self) -> Option<*mut c_void> {
            let mut found = self.found.load(Ordering::Acquire);
            if found.is_null() {
                // SAFETY: looks a C string up in the libraries after this one.
                found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
                self.found.store(found, Ordering::Release);
            }
            (!found.is_null()).then_some(found)
        }
    }

    static FOPEN: Function = Function::named(c"fopen");
    static FREOPEN: Function = Function::named(c"freopen");
    static FCLOSE: Function = Function::named(c"fclose");
    static FALLOCATE: Function = Function::named(c"posix_fallocate");

    pub fn fopen(path: *const c_char, mode: *const c_char) -> Option<*mut libc::FILE> {
        type Signature = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
        // SAFETY: libc's fopen has this signature, and the arguments are those of its caller.
        FOPEN.get().map(|f| unsafe { std::mem::transmute::<*mut c_void, Signature>(f)(path, mode) })
    }

    pub fn freopen(
        path: *const c_char,
        mode: *const c_char,
        stream: *mut libc::FILE,
    ) -> Option<*mut libc::FILE> {
        type Signature =
            unsafe extern "C" fn(*const c_char, *const c_char, *mut libc::FILE) -> *mut libc::FILE;
        // SAFETY: libc's freopen has this signature, and the arguments are those of its caller.
        FREOPEN.get().map(|f| unsafe { std::mem::transmute::<*mut c_void, Signature>(f)(path, mode, stream) })
    }

    pub fn fclose(stream: *mut libc::FILE) -> Option<c_int> {
        type Signature = unsafe extern "C" fn(*mut libc::FILE) -> c_int;
        // SAFETY: libc's fclose has this signature, and the stream is that of its caller.
        FCLOSE.get().map(|f| unsafe { std::mem::transmute::<*mut c_void, Signature>(f)(stream) })
    }

    pub fn posix_fallocate(fd: c_int, offset: libc::off_t, length: libc::off_t) -> Option<c_int> {
        type Signature = unsafe extern "C" fn(c_int, libc::off_t, libc::off_t) -> c_int;
        // SAFETY: libc's posix_fallocate has this signature.
        FALLOCATE
            .get()
            .map(|f| unsafe { std::mem::transmute::<*mut c_void, Signature>(f)(fd, offset, length) })
    }
}

/// What a mode of fopen means for the file.
struct Mode {
    writes: bool,
    truncates: bool,
}

impl Mode {
    fn of(given: *const c_char) -> Self {
        if given.is_null() {
            return Self { writes: false, truncates: false };
        }
        // SAFETY: a mode given to fopen is a C string.
        let text = unsafe { CStr::from_ptr(given) }.to_bytes();
        let writes = text.iter().any(|byte| matches!(byte, b'w' | b'a' | b'+'));
        Self { writes, truncates: text.first() == Some(&b'w') }
    }
}

/// Opens a stream with `really`; before that, an existing file's contents are kept, after it a new file's
/// creation is logged.
fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    really: impl FnOnce() -> *mut libc::FILE,
) -> *mut libc::FILE {
    let mode = Mode::of(mode);
    let tracking = shared().filter(|shared| mode.writes && !path.is_null() && shared.is_tracking());
    let Some(shared) = tracking else { return really() };
    // SAFETY: a path given to fopen is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let Some(at) = locate(shared, AT_FDCWD, path) else { return really() };
    let _section = Section::enter(shared);
    let _names = lock_names(shared);
    let existed = before(shared, &at, path, mode.truncates);
    let stream = really();
    if !existed && !stream.is_null() {
        after(shared, &at, path);
    }
    stream
}

fn before(shared: Shared, at: &Located, path: &CStr, truncates: bool) -> bool {
    let fd = sys::open_at(AT_FDCWD, path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    let Some(fd) = c_int::try_from(fd).ok().filter(|fd| *fd >= 0) else { return false };
    if let Some(status) = sys::status_of(fd).filter(sys::Status::is_file) {
        if let Some(file) = names::enter(shared, status.id, at.root, at.class()) {
            let _held = file.lock();
            let mut size = status.size;
            if truncates && size > 0 {
                file.before_truncate(fd, 0, size);
                sys::ftruncate(fd, 0);
                size = 0;
            }
            file.before_stream(fd, size);
        }
    }
    sys::close(fd);
    true
}

fn after(shared: Shared, at: &Located, path: &CStr) {
    let Some(status) = sys::status_at(AT_FDCWD, path).filter(sys::Status::is_file) else { return };
    let Some(file) = names::enter_created(shared, status.id, at) else { return };
    let sequence = shared.header.next_sequence();
    let about = About { change: NameChange::Create, id: status.id, victim: 0, at, to: None, target: b"" };
    names::log(shared, sequence, &about);
    let _held = file.lock();
    // Nothing is read of an empty file: no descriptor is needed.
    file.before_stream(-1, 0);
}

fn missing() -> *mut libc::FILE {
    sys::set_errno(libc::ENOSYS);
    std::ptr::null_mut()
}

#[no_mangle]
extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    open_stream(path, mode, || original::fopen(path, mode).unwrap_or_else(missing))
}

#[no_mangle]
extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    fopen(path, mode)
}

#[no_mangle]
extern "C" fn freopen(path: *const c_char, mode: *const c_char, stream: *mut libc::FILE) -> *mut libc::FILE {
    forget_descriptor(stream);
    open_stream(path, mode, || original::freopen(path, mode, stream).unwrap_or_else(missing))
}

#[no_mangle]
extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut libc::FILE,
) -> *mut libc::FILE {
    freopen(path, mode, stream)
}

#[no_mangle]
extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
    forget_descriptor(stream);
    original::fclose(stream).unwrap_or(libc::EOF)
}

/// The descriptor of a stream is closed without a call of close.
fn forget_descriptor(stream: *mut libc::FILE) {
    if !stream.is_null() {
        // SAFETY: the stream is open: its caller is about to close it.
        fds::clear(unsafe { libc::fileno(stream) });
    }
}
