//! The Python module `walproof._native`: converts types, releases the GIL, maps errors. Decides nothing.

// The macros of pyo3 expand to unsafe code; this crate has none of its own, and no documented items.
#![allow(unsafe_code)]

use std::path::PathBuf;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use walproof_wal::{
    CheckpointKind, Compression, Error, Finish, Image, Lsn, Range, Reader, Record, Segments, Summary, Totals,
};

/// Totals of the WAL in a folder or file; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (path, start=None, end=None, timeline=None))]
fn wal_summary<'py>(
    py: Python<'py>,
    path: PathBuf,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline };
    let summary = py
        .detach(|| Summary::read(Segments::from_path(&path)?, range))
        .map_err(|error| wal_error(py, &error))?;
    summary_dict(py, &summary)
}

fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", summary.identity.version.major())?;
    dict.set_item("system_identifier", summary.identity.system_identifier)?;
    dict.set_item("segment_size", summary.identity.segment_size)?;
    dict.set_item("timeline", summary.timeline)?;
    dict.set_item("start", summary.start.0)?;
    dict.set_item("end", summary.end.0)?;
    let (finish, reason) = match &summary.finish {
        Finish::LastSegment { wanted } => ("last segment", Some(format!("{wanted} is not at hand"))),
        Finish::EndOfWal { reason } => ("end of WAL", Some(reason.to_string())),
        _ => ("requested", None),
    };
    dict.set_item("finish", finish)?;
    dict.set_item("finish_reason", reason)?;

    dict.set_item(
        "rmgrs",
        summary.by_rmgr().map(|(id, totals)| row(id.to_string(), totals)).collect::<Vec<_>>(),
    )?;
    dict.set_item(
        "operations",
        summary
            .by_operation()
            .map(|(operation, totals)| row(operation.to_string(), totals))
            .collect::<Vec<_>>(),
    )?;

    let images = PyDict::new(py);
    images.set_item("count", summary.images.count)?;
    images.set_item("bytes", summary.images.bytes)?;
    images.set_item("uncompressed_bytes", summary.images.uncompressed_bytes)?;
    images.set_item("hint_count", summary.images.hint_count)?;
    images.set_item("hint_bytes", summary.images.hint_bytes)?;
    images.set_item("not_applied_count", summary.images.not_applied_count)?;
    let compressed = PyDict::new(py);
    for method in Compression::ALL {
        compressed.set_item(method.name(), summary.images.compressed_by(method))?;
    }
    images.set_item("compressed_count", compressed)?;
    dict.set_item("images", images)?;

    dict.set_item("commits", summary.transactions.commits)?;
    dict.set_item("aborts", summary.transactions.aborts)?;
    dict.set_item("first_commit_unix_us", summary.transactions.first_commit_unix_us)?;
    dict.set_item("last_commit_unix_us", summary.transactions.last_commit_unix_us)?;

    let checkpoints = summary.checkpoints.iter().map(|checkpoint| {
        let kind = match checkpoint.kind {
            CheckpointKind::Online => "online",
            CheckpointKind::Shutdown => "shutdown",
        };
        (checkpoint.lsn.0, checkpoint.redo.0, kind, checkpoint.timeline, checkpoint.time_unix_s)
    });
    dict.set_item("checkpoints", checkpoints.collect::<Vec<_>>())?;

    let accounting = PyDict::new(py);
    accounting.set_item("record_bytes", summary.accounting.record_bytes)?;
    accounting.set_item("padding_bytes", summary.accounting.padding_bytes)?;
    accounting.set_item("page_header_bytes", summary.accounting.page_header_bytes)?;
    accounting.set_item("segment_header_bytes", summary.accounting.segment_header_bytes)?;
    accounting.set_item("switch_bytes", summary.accounting.switch_bytes)?;
    accounting.set_item("overwritten_bytes", summary.accounting.overwritten_bytes)?;
    dict.set_item("accounting", accounting)?;
    Ok(dict)
}

type Row = (String, u64, u64, u64);

fn row(name: String, totals: Totals) -> Row {
    (name, totals.records, totals.record_bytes, totals.image_bytes)
}

/// Every record in a range, as tuples; see `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (path, start=None, end=None, timeline=None))]
fn wal_records<'py>(
    py: Python<'py>,
    path: PathBuf,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
) -> PyResult<Bound<'py, PyList>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline };
    let rows = py
        .detach(|| {
            let mut reader = Reader::open(Segments::from_path(&path)?, range)?;
            let mut rows = Vec::new();
            while let Some(record) = reader.next_record()? {
                rows.push(record_row(&record));
            }
            Ok(rows)
        })
        .map_err(|error: Error| wal_error(py, &error))?;
    PyList::new(py, rows)
}

/// length, hole offset, hole length, compression, applied
type ImageRow = (u16, u16, u16, Option<&'static str>, bool);
/// id, tablespace, database, relation, fork, block, image
type BlockRow = (u8, u32, u32, u32, u8, u32, Option<ImageRow>);
/// LSN, previous LSN, operation, total length, image bytes, transaction, blocks
type RecordRow = (u64, u64, String, u32, u32, u32, Vec<BlockRow>);

fn record_row(record: &Record<'_>) -> RecordRow {
    let image_row = |image: Image| {
        let method = image.compression.map(Compression::name);
        (image.length, image.hole_offset, image.hole_length, method, image.apply)
    };
    let blocks = record.blocks.iter().map(|block| {
        let relation = block.relation;
        let (tablespace, database, relation) = (relation.tablespace, relation.database, relation.relation);
        (block.id, tablespace, database, relation, block.fork, block.block, block.image.map(image_row))
    });
    (
        record.lsn.0,
        record.header.prev.0,
        record.operation().to_string(),
        record.header.total_length,
        record.image_bytes(),
        record.header.xid,
        blocks.collect(),
    )
}

/// `walproof.errors.WalError` with message, detail and hint.
fn wal_error(py: Python<'_>, error: &Error) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let parts = PyDict::new(py);
        parts.set_item("detail", error.detail())?;
        parts.set_item("hint", error.hint())?;
        let class = py.import("walproof.errors")?.getattr("WalError")?;
        Ok(PyErr::from_value(class.call((error.to_string(),), Some(&parts))?))
    };
    build().unwrap_or_else(|_| PyRuntimeError::new_err(error.to_string()))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(wal_summary, module)?)?;
    module.add_function(wrap_pyfunction!(wal_records, module)?)
}
