//! Paths as the state knows them: a root and what follows below it, with symbolic links resolved.

use std::ffi::{c_int, CStr};

use walproof_disk::state::{Void, PATH_MAX};
use walproof_disk::{is_transient, FileClass, FileId};

use crate::shared::Shared;
use crate::sys;

/// Room for a path and its end.
pub type PathBuffer = [u8; PATH_MAX + 2];

/// A name below a root.
pub struct Located {
    pub root: u8,
    /// The folder that the name is in.
    pub parent: FileId,
    full: PathBuffer,
    length: usize,
    below: usize,
}

impl Located {
    /// The path below the root.
    pub fn path(&self) -> &[u8] {
        self.full.get(self.below..self.length).unwrap_or_default()
    }

    pub fn class(&self) -> FileClass {
        FileClass::of(self.path())
    }
}

/// Appends bytes; false when they do not fit.
fn append(buffer: &mut PathBuffer, length: &mut usize, bytes: &[u8]) -> bool {
    let Some(place) = buffer.get_mut(*length..*length + bytes.len()) else { return false };
    place.copy_from_slice(bytes);
    *length += bytes.len();
    // The end of a C string stays free.
    *length < PATH_MAX
}

/// A number in decimal, at the end of the buffer that is returned.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start = place;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// `prefix` and a number as a C string.
pub fn numbered<'a>(prefix: &[&[u8]], number: u64, buffer: &'a mut PathBuffer) -> Option<&'a CStr> {
    let mut length = 0;
    for part in prefix {
        if !append(buffer, &mut length, part) {
            return None;
        }
    }
    if !append(buffer, &mut length, decimal(number, &mut [0; 20])) || !append(buffer, &mut length, b"\0") {
        return None;
    }
    CStr::from_bytes_until_nul(buffer).ok()
}

/// Whether a tracked path's name is that of a file that was removed, as /proc shows it.
fn is_deleted(path: &[u8]) -> bool {
    path.ends_with(b" (deleted)")
}

/// The real path of an open file or folder.
pub fn real_path(fd: c_int, buffer: &mut PathBuffer) -> Option<&[u8]> {
    let mut link = [0; PATH_MAX + 2];
    let link = numbered(&[b"/proc/self/fd/"], u64::try_from(fd).ok()?, &mut link)?;
    sys::read_link(libc::AT_FDCWD, link, buffer)
}

/// Root and class of an open file; None when it is not tracked.
pub fn locate_open(shared: Shared, fd: c_int) -> Option<(u8, FileClass)> {
    let mut buffer = [0; PATH_MAX + 2];
    let path = real_path(fd, &mut buffer)?;
    let (root, below) = shared.header.locate(path)?;
    (!is_deleted(below) && !is_transient(below)).then(|| (root, FileClass::of(below)))
}

/// A name below a root, which need not exist; None when it is elsewhere or of a kind that is not tracked.
pub fn locate(shared: Shared, folder: c_int, path: &CStr) -> Option<Located> {
    let mut bytes = path.to_bytes();
    while let [rest @ .., b'/'] = bytes {
        bytes = rest;
    }
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&b"/"[..], bytes.get(1..)?),
        Some(at) => (bytes.get(..at)?, bytes.get(at + 1..)?),
        None => (&b"."[..], bytes),
    };
    if name.is_empty() || name == b"." || name == b".." {
        return None;
    }
    let mut buffer = [0; PATH_MAX + 2];
    let mut length = 0;
    if !append(&mut buffer, &mut length, parent) {
        // Of a path that long it is not known where it leads.
        shared.header.declare_void(Void::PathTooLong);
        return None;
    }
    let parent = CStr::from_bytes_until_nul(&buffer).ok()?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let fd = c_int::try_from(sys::open_at(folder, parent, flags, 0)).ok().filter(|fd| *fd >= 0)?;
    let mut full = [0; PATH_MAX + 2];
    let found = real_path(fd, &mut full).map(<[u8]>::len);
    let status = sys::status_of(fd);
    sys::close(fd);
    let (mut length, parent) = (found?, status?.id);
    if !(append(&mut full, &mut length, b"/") && append(&mut full, &mut length, name)) {
        if shared.header.locate(full.get(..length)?).is_some() {
            shared.header.declare_void(Void::PathTooLong);
        }
        return None;
    }
    let (root, below) = shared.header.locate(full.get(..length)?)?;
    if below.is_empty() || is_transient(below) {
        return None;
    }
    let below = length - below.len();
    Some(Located { root, parent, full, length, below })
}

/// A file of a root's graveyard: `kind` and a number.
pub fn in_graveyard(
    shared: Shared,
    root: u8,
    kind: u8,
    number: u64,
    buffer: &mut PathBuffer,
) -> Option<&CStr> {
    let root = shared.header.roots().nth(usize::from(root))?;
    let mut folder = [0; PATH_MAX];
    numbered(&[root.graveyard.read(&mut folder), b"/", &[kind]], number, buffer)
}
