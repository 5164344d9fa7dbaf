//! `wal_strip`: segments without contents, written to a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use walproof_wal::{strip, Error, SegmentName};

use crate::{segments, wal_error};

const LEVEL: i32 = 3;

/// Segments, records, bytes blanked out, bytes of the files written.
type Done = (u64, u64, u64, u64);

/// Writes NAME.zst for each segment into `folder`; see `_native.pyi`.
#[pyfunction]
pub fn wal_strip(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    folder: PathBuf,
    timeline: Option<u32>,
) -> PyResult<Done> {
    let mut interrupted = None;
    let stripped = py.detach(|| {
        let mut written = 0;
        let mut write = |name: SegmentName, bytes: &[u8]| {
            if let Err(signal) = Python::attach(|py| py.check_signals()) {
                interrupted = Some(signal);
                return Err(io_error(&folder, io::ErrorKind::Interrupted.into()));
            }
            written += put(&folder, name, bytes).map_err(|source| io_error(&folder, source))?;
            Ok(())
        };
        let done = strip(&segments(&paths)?, timeline, &mut write)?;
        Ok((done.segments, done.records, done.blanked_bytes, written))
    });
    match interrupted {
        Some(signal) => Err(signal),
        None => stripped.map_err(|error| wal_error(py, &error)),
    }
}

fn io_error(folder: &Path, source: io::Error) -> Error {
    Error::Io { action: "write to folder", path: folder.to_owned(), source }
}

/// A file is there whole or not at all.
fn put(folder: &Path, name: SegmentName, bytes: &[u8]) -> io::Result<u64> {
    let (unfinished, path) = (folder.join(format!("{name}.tmp")), folder.join(format!("{name}.zst")));
    let packed = zstd::bulk::compress(bytes, LEVEL)?;
    fs::write(&unfinished, &packed)
        .and_then(|()| fs::rename(&unfinished, &path))
        .inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    Ok(packed.len() as u64)
}
