//! `wal_whatif`: what other settings would have written, as a dict of plain values.

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{Compression, Error, Lsn, Range, Reader};
use walproof_whatif::{simulate, ImageCompression, Outcome, Recorded, Request, Target, WhatIf};

use crate::reading::reading_dict;
use crate::{segments, wal_error};

/// `max_wal_size` and `min_wal_size` in MB, `checkpoint_timeout` in s, completion target, full-page writes,
/// compression ("as recorded", "off" or a method), hint records, phase, segments late.
type RawTarget = (Option<u64>, u64, Option<u64>, f64, bool, String, bool, f64, u64);

/// What is asked, as a dict.
#[derive(FromPyObject)]
pub struct RawRequest {
    #[pyo3(item)]
    targets: Vec<RawTarget>,
    /// Location and microseconds since 1970.
    #[pyo3(item)]
    times: Vec<(u64, i64)>,
    #[pyo3(item)]
    most_pages: Option<u64>,
}

/// Simulates servers with other settings; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, request))]
pub fn wal_whatif<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
    allow_gaps: bool,
    request: RawRequest,
) -> PyResult<Bound<'py, PyDict>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
    let targets = request.targets.into_iter().map(target).collect::<PyResult<Vec<Target>>>()?;
    let times: Vec<(Lsn, i64)> =
        request.times.into_iter().map(|(lsn, time_us)| (Lsn(lsn), time_us)).collect();
    let began = Instant::now();
    let clock = move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let found = py
        .detach(|| -> Result<WhatIf, Error> {
            let request =
                Request { targets: &targets, times: &times, most_pages: request.most_pages, clock: &clock };
            simulate(segments(&paths)?, range, &request)
        })
        .map_err(|error| wal_error(py, &error))?;
    whatif_dict(py, &found)
}

/// Major version and segment size of a recording.
#[pyfunction]
pub fn wal_identity(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    start: Option<u64>,
    timeline: Option<u32>,
) -> PyResult<(u32, u32)> {
    let range = Range { start: start.map(Lsn), timeline, ..Range::default() };
    let identity = py
        .detach(|| -> Result<_, Error> { Ok(Reader::open(segments(&paths)?, range)?.identity()) })
        .map_err(|error| wal_error(py, &error))?;
    Ok((identity.version.major(), identity.segment_size))
}

/// Where each whole segment's file ends in the WAL, and when it was last written, in microseconds since 1970.
#[pyfunction]
pub fn wal_written(py: Python<'_>, paths: Vec<PathBuf>, segment_size: u32) -> PyResult<Vec<(u64, i64)>> {
    let written = py
        .detach(|| -> Result<_, Error> { Ok(segments(&paths)?.written(segment_size)) })
        .map_err(|error| wal_error(py, &error))?;
    let microseconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
    };
    Ok(written.into_iter().map(|(lsn, time)| (lsn.0, microseconds(time))).collect())
}

fn target(raw: RawTarget) -> PyResult<Target> {
    let (
        max_wal_size_mb,
        min_wal_size_mb,
        checkpoint_timeout_s,
        completion_target,
        images,
        name,
        hint_records,
        phase,
        late,
    ) = raw;
    let compression = match name.as_str() {
        "as recorded" => ImageCompression::AsRecorded,
        "off" => ImageCompression::Off,
        name => Compression::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .map(ImageCompression::Method)
            .ok_or_else(|| PyValueError::new_err(format!("no such compression: {name}")))?,
    };
    Ok(Target {
        max_wal_size_mb,
        min_wal_size_mb,
        checkpoint_timeout_s,
        completion_target,
        full_page_writes: images,
        compression,
        hint_records,
        phase,
        late_segments: late,
    })
}

fn whatif_dict<'py>(py: Python<'py>, found: &WhatIf) -> PyResult<Bound<'py, PyDict>> {
    let dict = reading_dict(py, &found.identity, found.timeline, found.start, &found.finish, &found.gaps)?;
    dict.set_item("first_timeline", found.first_timeline)?;
    dict.set_item("end", found.end.0)?;
    dict.set_item("recorded", recorded_dict(py, &found.recorded)?)?;

    let sample = PyDict::new(py);
    sample.set_item("count", found.sample.count)?;
    sample.set_item("plain_bytes", found.sample.plain_bytes)?;
    for (method, own) in Compression::ALL.into_iter().zip(found.sample.methods) {
        sample.set_item(method.name(), (own.bytes, own.nanoseconds))?;
    }
    dict.set_item("sample", sample)?;
    let outcomes = found.outcomes.iter().map(|outcome| outcome_dict(py, outcome));
    dict.set_item("outcomes", outcomes.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn recorded_dict<'py>(py: Python<'py>, recorded: &Recorded) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("records", recorded.records)?;
    dict.set_item("record_bytes", recorded.record_bytes)?;
    dict.set_item("images", recorded.images)?;
    dict.set_item("image_bytes", recorded.image_bytes)?;
    dict.set_item("hint_images", recorded.hint_images)?;
    dict.set_item("references", recorded.references)?;
    dict.set_item("pages", recorded.pages)?;
    dict.set_item("held_pages", recorded.held_pages)?;
    dict.set_item("begun_before", recorded.begun_before)?;
    dict.set_item("first_time_us", recorded.first_time_us)?;
    dict.set_item("last_time_us", recorded.last_time_us)?;
    dict.set_item("longest_silence_us", recorded.longest_silence_us)?;
    let checkpoints = recorded.checkpoints.iter().map(|one| (one.redo, one.time_unix_s, one.is_shutdown));
    dict.set_item("checkpoints", checkpoints.collect::<Vec<_>>())?;
    dict.set_item("has_hint_records", recorded.has_hint_records)?;
    dict.set_item("full_page_writes_off", recorded.full_page_writes_off)?;
    dict.set_item("has_backup", recorded.has_backup)?;
    dict.set_item("has_consistency_images", recorded.has_consistency_images)?;
    dict.set_item("compression", recorded.compression.map_or("off", Compression::name))?;
    let own = recorded.agreement;
    dict.set_item(
        "agreement",
        (own.images, own.bare, own.unexplained, own.missing, own.expected_bytes, own.found_bytes),
    )?;
    dict.set_item("memory_bytes", recorded.memory_bytes)?;
    Ok(dict)
}

fn outcome_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("wal_bytes", outcome.wal_bytes)?;
    dict.set_item("base_bytes", outcome.base_bytes)?;
    dict.set_item("images", outcome.images)?;
    dict.set_item("image_bytes", outcome.image_bytes)?;
    dict.set_item("first_images", outcome.first_images)?;
    dict.set_item("first_image_bytes", outcome.first_image_bytes)?;
    dict.set_item("guessed_images", outcome.guessed_images)?;
    dict.set_item("sample_error_bytes", outcome.sample_error_bytes)?;
    dict.set_item("by_size", outcome.by_size)?;
    dict.set_item("by_time", outcome.by_time)?;
    let own = outcome.cycles;
    dict.set_item("cycles", (own.count, own.wal_bytes, own.images, own.base_bytes, own.seconds, own.late))?;
    dict.set_item("distance_mean", outcome.distance_mean)?;
    dict.set_item("distance_most", outcome.distance_most)?;
    dict.set_item("crash_offset", outcome.crash_offset)?;
    dict.set_item("pg_wal_most", outcome.pg_wal_most)?;
    Ok(dict)
}
