//! `wal_recovery`: what crash recovery has to do, as a dict of plain values.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_recovery::{analyse, last_checkpoint, Images, Plan, Recovery};
use walproof_wal::{Error, Lsn, Range, ToValue, Watch};

use crate::fields::object;
use crate::reading::reading_dict;
use crate::source::{segments, RawSource};
use crate::watched::{watched, Observe};

/// The last complete checkpoint: location, redo point, whether it is one of a shutdown, Unix time; see
/// `_native.pyi`.
type RawCheckpoint = (u64, u64, bool, i64);

/// Finds where recovery of a recording would begin.
#[pyfunction]
#[pyo3(signature = (paths, end, timeline, threads, observe=None))]
pub fn wal_last_checkpoint<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    end: Option<u64>,
    timeline: Option<u32>,
    threads: usize,
    observe: Observe<'py>,
) -> PyResult<(Option<RawCheckpoint>, u64)> {
    let range = Range { end: end.map(Lsn), timeline, ..Range::default() };
    let watch = Watch::default();
    let (found, first) = watched(py, &watch, observe.as_ref(), || -> Result<_, Error> {
        let segments = segments(paths, &watch)?;
        let first = walproof_wal::Reader::open(Arc::clone(&segments), range)?.first_lsn();
        Ok((last_checkpoint(&segments, range, threads)?, first))
    })?;
    let checkpoint = found.map(|checkpoint| {
        let is_shutdown = checkpoint.kind == walproof_wal::CheckpointKind::Shutdown;
        (checkpoint.lsn.0, checkpoint.redo.0, is_shutdown, checkpoint.time_unix_s)
    });
    Ok((checkpoint, first.0))
}

/// Simulates recovery; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, buffers, concurrency, marks, images, crashed, read_ahead, observe=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn wal_recovery<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
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
    observe: Observe<'py>,
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
    let watch = Watch::default();
    let found = watched(py, &watch, observe.as_ref(), || analyse(segments(paths, &watch)?, range, &plan))?;
    recovery_dict(py, &found)
}

fn recovery_dict<'py>(py: Python<'py>, found: &Recovery) -> PyResult<Bound<'py, PyDict>> {
    let dict =
        reading_dict(py, &found.identity, found.timeline, found.start, found.finish.reason(), &found.gaps)?;
    dict.set_item("features", object(py, &found.features.to_value())?)?;
    Ok(dict)
}
