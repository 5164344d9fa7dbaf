//! Where chunks of a trace are kept: so many bytes in memory, the others in a file that has no name.

use std::fs::{remove_file, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::live::trace::{Kept, CHUNK_BYTES};

/// Bytes of a place in the file: a chunk, which ends with a record that may drop relations by the hundred. Longer ones stay
/// in memory.
const PLACE_BYTES: u64 = CHUNK_BYTES as u64 + (64 << 10);

#[derive(Debug)]
pub(crate) struct Spill {
    file: Option<File>,
    memory: u64,
    memory_most: u64,
    /// Places of the file that are free again, and the first that was never used.
    free: Vec<u64>,
    next: u64,
}

impl Spill {
    /// All in memory.
    pub(crate) fn none() -> Spill {
        Spill { file: None, memory: 0, memory_most: u64::MAX, free: Vec::new(), next: 0 }
    }

    /// What is above `memory_most` bytes stands in a file in `folder`, which has no name from its beginning on.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn in_folder(folder: &Path, memory_most: u64) -> io::Result<Spill> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".walproof-trace.{}.{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        remove_file(&path)?;
        Ok(Spill { file: Some(file), memory_most, ..Spill::none() })
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory
    }

    /// Keeps a chunk, in memory where the file has no room for it.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> Kept {
        let length = bytes.len();
        if self.memory + length as u64 > self.memory_most && length as u64 <= PLACE_BYTES {
            if let Some(file) = &self.file {
                let place = self.free.last().copied().unwrap_or(self.next);
                if file.write_all_at(&bytes, place * PLACE_BYTES).is_ok() {
                    if self.free.pop().is_none() {
                        self.next += 1;
                    }
                    return Kept::File(place, length);
                }
            }
        }
        self.memory += length as u64;
        Kept::Memory(bytes)
    }

    pub(crate) fn forget(&mut self, kept: Kept) {
        match kept {
            Kept::Memory(bytes) => self.memory -= bytes.len() as u64,
            Kept::File(place, _) => self.free.push(place),
        }
    }

    /// The bytes of a chunk; None when the file could not be read.
    pub(crate) fn read(&self, kept: &Kept) -> Option<Vec<u8>> {
        match kept {
            Kept::Memory(bytes) => Some(bytes.clone()),
            Kept::File(place, length) => {
                let mut bytes = vec![0; *length];
                self.file.as_ref()?.read_exact_at(&mut bytes, place * PLACE_BYTES).ok()?;
                Some(bytes)
            }
        }
    }
}
