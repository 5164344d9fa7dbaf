//! `wal_recovery`: what crash recovery has to do, as a dict of plain values.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_recovery::{analyse, last_checkpoint, Features, Images, Plan, PoolWork, Recovery};
use walproof_wal::{Compression, Error, Lsn, Range, Segments};

use crate::reading::reading_dict;
use crate::{segments, wal_error};

/// The last complete checkpoint: location, redo point, whether it is one of a shutdown, Unix time; see
/// `_native.pyi`.
type RawCheckpoint = (u64, u64, bool, i64);

/// Finds where recovery of a recording would begin.
#[pyfunction]
pub fn wal_last_checkpoint(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    end: Option<u64>,
    timeline: Option<u32>,
    threads: usize,
) -> PyResult<(Option<RawCheckpoint>, u64)> {
    let range = Range { end: end.map(Lsn), timeline, ..Range::default() };
    let (found, first) = py
        .detach(|| -> Result<_, Error> {
            let segments = segments(&paths)?;
            let first = walproof_wal::Reader::open(Arc::clone(&segments), range)?.first_lsn();
            Ok((last_checkpoint(&segments, range, threads)?, first))
        })
        .map_err(|error| wal_error(py, &error))?;
    let checkpoint = found.map(|one| {
        let is_shutdown = one.kind == walproof_wal::CheckpointKind::Shutdown;
        (one.lsn.0, one.redo.0, is_shutdown, one.time_unix_s)
    });
    Ok((checkpoint, first.0))
}

/// Simulates recovery; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, buffers, concurrency, marks, images, crashed, read_ahead))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn wal_recovery<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
    allow_gaps: bool,
    buffers: Vec<u32>,
    concurrency: Option<u32>,
    marks: Vec<u64>,
    images: &str,
    crashed: Option<u32>,
    read_ahead: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
    let images = match images {
        "recorded" => Images::Recorded,
        "first" => Images::First,
        "off" => Images::Off,
        other => return Err(PyValueError::new_err(format!("no such way of images: {other}"))),
    };
    let marks = marks.into_iter().map(Lsn).collect();
    let plan = Plan { buffers, concurrency, marks, images, crashed, read_ahead };
    let found = py
        .detach(|| -> Result<Recovery, Error> {
            let segments: Arc<Segments> = segments(&paths)?;
            analyse(segments, range, &plan)
        })
        .map_err(|error| wal_error(py, &error))?;
    recovery_dict(py, &found)
}

fn recovery_dict<'py>(py: Python<'py>, found: &Recovery) -> PyResult<Bound<'py, PyDict>> {
    let dict = reading_dict(py, &found.identity, found.timeline, found.start, &found.finish, &found.gaps)?;
    let features = found.features.iter().map(|one| features_dict(py, one));
    dict.set_item("features", features.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn features_dict<'py>(py: Python<'py>, features: &Features) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let work = features.work;
    dict.set_item("end", features.end.0)?;
    dict.set_item("records", work.records)?;
    dict.set_item("record_bytes", work.record_bytes)?;
    dict.set_item("unforeseen", work.unforeseen)?;
    dict.set_item("gin_records", work.gin_records)?;
    dict.set_item("compactions", work.compactions)?;
    dict.set_item("extensions", work.extensions)?;
    dict.set_item("references", work.references)?;
    let names = std::iter::once("off").chain(Compression::ALL.into_iter().map(Compression::name));
    let images = PyDict::new(py);
    for ((name, count), bytes) in names.zip(work.images).zip(work.image_bytes) {
        images.set_item(name, (count, bytes))?;
    }
    dict.set_item("images", images)?;
    dict.set_item("restored", work.restored)?;
    dict.set_item("initialised", work.initialised)?;
    dict.set_item("done", work.done)?;
    dict.set_item("pages", work.pages)?;
    dict.set_item("dirty", work.dirty)?;
    dict.set_item("runs", work.runs)?;
    dict.set_item("relations_dropped", work.relations_dropped)?;
    dict.set_item("truncations", work.truncations)?;
    dict.set_item("recent_misses", work.recent_misses)?;
    dict.set_item("far_misses", work.far_misses)?;
    dict.set_item("distant_misses", work.distant_misses)?;
    dict.set_item("disk_requests", work.disk_requests)?;
    for (name, pools) in [("pools", &features.pools), ("pools_off", &features.pools_off)] {
        let pools = pools.iter().map(|pool| pool_dict(py, *pool));
        dict.set_item(name, pools.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok(dict)
}

fn pool_dict(py: Python<'_>, pool: PoolWork) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("misses", pool.misses),
        ("reads", pool.reads),
        ("far_reads", pool.far_reads),
        ("frames", pool.frames),
        ("evictions", pool.evictions),
        ("far_evictions", pool.far_evictions),
        ("first_writes", pool.first_writes),
        ("prefetches", pool.prefetches),
        ("disk_reads", pool.disk_reads),
        ("resident", pool.resident),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}
