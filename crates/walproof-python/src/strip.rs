//! `wal_strip`: segments without contents, written to a folder; `WalStripper`: WAL without contents, as it comes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use walproof_wal::{strip, Error, Lsn, RelFileLocator, SegmentName, Stream, Watch};
use walproof_whatif::{ForkSample, ImageSampler};

use crate::source::{segments, RawSource};
use crate::wal_error;
use crate::watched::{watched, Observe};

const LEVEL: i32 = 3;

/// Of a relation's fork: its number and what its images told.
type Sample = ((u32, u32, u32, u8), (u64, u64, [u64; 3], u64, u64, [f64; 3]));
/// What the images told, and nanoseconds by method.
pub type Samples = (Vec<Sample>, [u64; 3]);
/// Segments, records, bytes blanked out, bytes of the files written; the images.
type Done = ((u64, u64, u64, u64), Samples);

/// As Python keeps it.
fn told((samples, nanoseconds): (Vec<ForkSample>, [u64; 3])) -> Samples {
    let rows = samples.iter().map(|sample| {
        let at = sample.relation;
        let sums = (
            sample.count,
            sample.plain_bytes,
            sample.bytes,
            sample.pointers,
            sample.pointed_bytes,
            sample.errors,
        );
        ((at.tablespace, at.database, at.relation, sample.fork), sums)
    });
    (rows.collect(), nanoseconds)
}

/// As Python kept it.
pub fn fork_samples(rows: &[Sample]) -> Vec<ForkSample> {
    let sample = |(at, sums): Sample| {
        let (tablespace, database, relation, fork) = at;
        let (count, plain_bytes, bytes, pointers, pointed_bytes, errors) = sums;
        let relation = RelFileLocator { tablespace, database, relation };
        ForkSample { relation, fork, count, plain_bytes, bytes, errors, pointers, pointed_bytes }
    };
    rows.iter().copied().map(sample).collect()
}

/// Nanoseconds since some moment.
pub fn nanoseconds() -> u64 {
    use std::sync::OnceLock;
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Strips WAL that comes in order, from the beginning of a segment on.
#[pyclass(module = "walproof._native")]
pub struct WalStripper {
    stream: Stream,
    sampler: ImageSampler<'static>,
}

#[pymethods]
impl WalStripper {
    #[new]
    fn new(start: u64, segment_size: u32) -> WalStripper {
        WalStripper {
            stream: Stream::new(Lsn(start), segment_size),
            sampler: ImageSampler::new(&nanoseconds),
        }
    }

    /// Takes bytes; those without contents that can be told by now.
    fn push<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::with_capacity(data.len());
        let (stream, sampler) = (&mut self.stream, &mut self.sampler);
        stream
            .push(data, &mut |record| sampler.look(record), &mut out)
            .map_err(|error| wal_error(py, &error))?;
        Ok(PyBytes::new(py, &out))
    }

    /// What the images told.
    fn samples(&self) -> Samples {
        told(self.sampler.found())
    }
}

/// Writes NAME.zst for each segment into `folder`, and histories of timelines; see `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, folder, timeline, observe=None))]
pub fn wal_strip<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    folder: PathBuf,
    timeline: Option<u32>,
    observe: Observe<'py>,
) -> PyResult<Done> {
    let watch = Watch::default();
    watched(py, &watch, observe.as_ref(), || {
        let mut written = 0;
        let mut write = |name: SegmentName, bytes: &[u8]| {
            written += put(&folder, name, bytes).map_err(|source| io_error(&folder, source))?;
            Ok(())
        };
        let segments = segments(paths, &watch)?;
        let mut sampler = ImageSampler::new(&nanoseconds);
        let done = strip(&segments, timeline, &mut |record| sampler.look(record), &mut write)?;
        for (timeline, text) in segments.histories() {
            fs::write(folder.join(format!("{timeline:08X}.history")), text)
                .map_err(|source| io_error(&folder, source))?;
        }
        Ok(((done.segments, done.records, done.blanked_bytes, written), told(sampler.found())))
    })
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
