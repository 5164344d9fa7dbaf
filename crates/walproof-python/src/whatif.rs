//! `wal_whatif`: what other settings would have written, as a dict of plain values.

use std::time::{Instant, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{Compression, Error, Lsn, Range, Reader, ToValue, Watch};
use walproof_whatif::{simulate, ImageCompression, Request, Target, WhatIf};

use crate::fields::{fields_dict, object};
use crate::reading::reading_dict;
use crate::source::{segments, RawSource};
use crate::strip::{fork_samples, Samples};
use crate::watched::{watched, Observe};

/// The settings of a server: the fields of `walproof.wal.whatif.Target`.
#[derive(FromPyObject)]
pub struct RawTarget {
    max_wal_size_mb: Option<u64>,
    checkpoint_timeout_s: Option<u64>,
    checkpoint_completion_target: f64,
    min_wal_size_mb: u64,
    full_page_writes: bool,
    wal_compression: String,
    hint_records: bool,
    ordered_keys: bool,
    phase: f64,
    late_segments: u64,
}

/// What is asked, as a dict.
#[derive(FromPyObject)]
pub struct RawRequest {
    #[pyo3(item)]
    pub(crate) targets: Vec<RawTarget>,
    /// Location and microseconds since 1970.
    #[pyo3(item)]
    pub(crate) times: Vec<(u64, i64)>,
    #[pyo3(item)]
    pub(crate) most_pages: Option<u64>,
    #[pyo3(item)]
    pub(crate) samples: Samples,
    #[pyo3(item)]
    pub(crate) ordered: Vec<u32>,
}

/// Simulates servers with other settings; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, request, observe=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn wal_whatif<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
    allow_gaps: bool,
    request: RawRequest,
    observe: Observe<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
    let targets = request.targets.into_iter().map(target).collect::<PyResult<Vec<Target>>>()?;
    let times: Vec<(Lsn, i64)> =
        request.times.into_iter().map(|(lsn, time_us)| (Lsn(lsn), time_us)).collect();
    let began = Instant::now();
    let clock = move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (rows, nanoseconds) = request.samples;
    let samples = fork_samples(&rows);
    let (most_pages, ordered) = (request.most_pages, request.ordered);
    let watch = Watch::default();
    let found = watched(py, &watch, observe.as_ref(), || {
        let samples = (samples.as_slice(), nanoseconds);
        let request = Request {
            targets: &targets,
            times: &times,
            most_pages,
            samples,
            ordered: &ordered,
            clock: &clock,
        };
        simulate(segments(paths, &watch)?, range, &request)
    })?;
    whatif_dict(py, &found)
}

/// Major version, segment size and system identifier of a recording.
#[pyfunction]
pub fn wal_identity(
    py: Python<'_>,
    paths: Vec<RawSource>,
    start: Option<u64>,
    timeline: Option<u32>,
) -> PyResult<(u32, u32, u64)> {
    let range = Range { start: start.map(Lsn), timeline, ..Range::default() };
    let watch = Watch::default();
    let identity = watched(py, &watch, None, || -> Result<_, Error> {
        Ok(Reader::open(segments(paths, &watch)?, range)?.identity())
    })?;
    Ok((identity.version.major(), identity.segment_size, identity.system_identifier))
}

/// Where each whole segment's file ends in the WAL, and when it was last written, in microseconds since 1970.
#[pyfunction]
pub fn wal_written(py: Python<'_>, paths: Vec<RawSource>, segment_size: u32) -> PyResult<Vec<(u64, i64)>> {
    let watch = Watch::default();
    let written = watched(py, &watch, None, || Ok(segments(paths, &watch)?.written(segment_size)))?;
    let microseconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
    };
    Ok(written.into_iter().map(|(lsn, time)| (lsn.0, microseconds(time))).collect())
}

pub(crate) fn target(raw: RawTarget) -> PyResult<Target> {
    let compression = match raw.wal_compression.as_str() {
        "as recorded" => ImageCompression::AsRecorded,
        "off" => ImageCompression::Off,
        name => Compression::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .map(ImageCompression::Method)
            .ok_or_else(|| PyValueError::new_err(format!("no such compression: {name}")))?,
    };
    Ok(Target {
        max_wal_size_mb: raw.max_wal_size_mb,
        min_wal_size_mb: raw.min_wal_size_mb,
        checkpoint_timeout_s: raw.checkpoint_timeout_s,
        completion_target: raw.checkpoint_completion_target,
        full_page_writes: raw.full_page_writes,
        compression,
        hint_records: raw.hint_records,
        ordered_keys: raw.ordered_keys,
        phase: raw.phase,
        late_segments: raw.late_segments,
    })
}

pub(crate) fn whatif_dict<'py>(py: Python<'py>, found: &WhatIf) -> PyResult<Bound<'py, PyDict>> {
    let dict = reading_dict(
        py,
        &found.identity,
        found.timeline,
        found.start,
        found.finish_reason.clone(),
        &found.gaps,
    )?;
    dict.set_item("first_timeline", found.first_timeline)?;
    dict.set_item("end", found.end.0)?;
    dict.set_item("recorded", fields_dict(py, &found.recorded)?)?;
    dict.set_item("sample", fields_dict(py, &found.sample)?)?;
    dict.set_item("outcomes", object(py, &found.outcomes.to_value())?)?;
    Ok(dict)
}
