//! Opens regular files, and nothing else that has a name.
//!
//! Opening a FIFO waits for somebody to write to it, and opening a device may do something: neither is WAL,
//! whatever it is called. A link counts as what it leads to.

use std::fs::{metadata, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::watch::Watch;

/// What a path leads to.
pub(super) enum Regular {
    File(std::fs::File),
    /// Something else, with its name.
    Special(&'static str),
}

/// Opens a file for reading. Never waits.
pub(super) fn open(path: &Path) -> io::Result<Regular> {
    if let Some(what) = special(&metadata(path)?) {
        return Ok(Regular::Special(what));
    }
    // It may have been exchanged since.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(special(&file.metadata()?).map_or(Regular::File(file), Regular::Special))
}

fn special(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    let kinds = [
        (kind.is_dir(), "a directory"),
        (kind.is_fifo(), "a FIFO"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device() || kind.is_block_device(), "a device"),
        (!kind.is_file(), "something else"),
    ];
    kinds.into_iter().find_map(|(is_it, name)| is_it.then_some(name))
}

/// A file whose reads fail once the pass was stopped: between the bytes that a decompressor gives there may be any
/// number of bytes that it takes.
pub(super) struct Stoppable<R> {
    pub(super) input: R,
    pub(super) watch: Watch,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Not ErrorKind::Interrupted: that is tried again.
        self.watch.check().map_err(io::Error::other)?;
        self.input.read(buffer)
    }
}
