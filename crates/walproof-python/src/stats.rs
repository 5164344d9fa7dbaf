//! `wal_stats`: totals as a dict of plain values.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{CheckpointKind, Error, Finish, Lsn, Range, Stats, Totals, Watch};

use crate::fields::fields_dict;
use crate::source::{segments, RawSource};
use crate::wal_error;
use crate::watched::{watched, Observe};

/// Totals of the WAL in folders and files; see `_native.pyi` for the shape of the result.
#[pyfunction]
#[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, partial, threads, observe=None))]
#[allow(clippy::too_many_arguments)] // they are named, and Python's
pub fn wal_stats<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
    allow_gaps: bool,
    partial: bool,
    threads: usize,
    observe: Observe<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
    let watch = Watch::default();
    let (stats, finish) = watched(py, &watch, observe.as_ref(), || {
        Stats::read_until_error(segments(paths, &watch)?, range, threads)
    })?;
    match finish {
        Err(error) if !partial => Err(wal_error(py, &error)),
        finish => stats_dict(py, &stats, &finish),
    }
}

/// What was counted, and why reading ended.
pub fn stats_dict<'py>(
    py: Python<'py>,
    stats: &Stats,
    finish: &Result<Finish, Error>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", stats.identity.version.major())?;
    dict.set_item("system_identifier", stats.identity.system_identifier)?;
    dict.set_item("segment_size", stats.identity.segment_size)?;
    dict.set_item("timeline", stats.timeline)?;
    dict.set_item("start", stats.start.0)?;
    dict.set_item("end", stats.end.0)?;
    let (end, reason, error) = match finish {
        Ok(Finish::LastSegment { wanted }) => {
            ("last segment", Some(format!("{wanted} is not at hand")), None)
        }
        Ok(Finish::EndOfWal { reason }) => ("end of WAL", Some(reason.to_string()), None),
        Ok(_) => ("requested", None, None),
        Err(error) => ("error", None, Some((error.to_string(), error.detail(), error.hint()))),
    };
    dict.set_item("finish", end)?;
    dict.set_item("finish_reason", reason)?;
    dict.set_item("error", error)?;
    dict.set_item("gaps", stats.gaps.iter().map(|gap| (gap.start.0, gap.end.0)).collect::<Vec<_>>())?;

    dict.set_item(
        "rmgrs",
        stats.by_rmgr().map(|(id, totals)| row(id.to_string(), totals)).collect::<Vec<_>>(),
    )?;
    dict.set_item(
        "operations",
        stats
            .by_operation()
            .map(|(operation, totals)| row(operation.to_string(), totals))
            .collect::<Vec<_>>(),
    )?;
    dict.set_item("images", fields_dict(py, &stats.images())?)?;

    let transactions = stats.transactions();
    dict.set_item("commits", transactions.commits)?;
    dict.set_item("aborts", transactions.aborts)?;
    dict.set_item("first_commit_unix_us", transactions.first_commit_unix_us)?;
    dict.set_item("last_commit_unix_us", transactions.last_commit_unix_us)?;

    let checkpoints = stats.checkpoints().iter().map(|checkpoint| {
        let kind = match checkpoint.kind {
            CheckpointKind::Online => "online",
            CheckpointKind::Shutdown => "shutdown",
        };
        (checkpoint.lsn.0, checkpoint.redo.0, kind, checkpoint.timeline, checkpoint.time_unix_s)
    });
    dict.set_item("checkpoints", checkpoints.collect::<Vec<_>>())?;

    let relations = stats.relations().iter().map(|row| {
        let (at, totals) = (row.relation, columns(row.totals));
        let method = row.method.map(|rmgr| rmgr.to_string().to_lowercase());
        ((at.tablespace, at.database, at.relation, row.fork), method, totals, row.distinct_blocks())
    });
    dict.set_item("relations", relations.collect::<Vec<_>>())?;
    dict.set_item("no_relation", columns(stats.relations().none()))?;

    let minutes =
        stats.rate().minutes().map(|(start_s, minute)| (start_s, columns(minute.totals), minute.commits));
    dict.set_item("minutes", minutes.collect::<Vec<_>>())?;
    dict.set_item("untimed", columns(stats.rate().untimed()))?;

    dict.set_item("accounting", fields_dict(py, &stats.accounting)?)?;
    Ok(dict)
}

/// Records, record bytes, image bytes, images.
type Columns = (u64, u64, u64, u64);

fn columns(totals: Totals) -> Columns {
    (totals.records, totals.record_bytes, totals.image_bytes, totals.image_count)
}

fn row(name: String, totals: Totals) -> (String, Columns) {
    (name, columns(totals))
}
