//! What every simulation over WAL says of the WAL that it read.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{Gap, Lsn, WalIdentity};

/// A dict with whose WAL it is, from where it was read, why reading ended and what was missing.
pub fn reading_dict<'py>(
    py: Python<'py>,
    identity: &WalIdentity,
    timeline: u32,
    start: Lsn,
    finish_reason: Option<String>,
    gaps: &[Gap],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", identity.version.major())?;
    dict.set_item("segment_size", identity.segment_size)?;
    dict.set_item("system_identifier", identity.system_identifier)?;
    dict.set_item("timeline", timeline)?;
    dict.set_item("start", start.0)?;
    dict.set_item("finish_reason", finish_reason)?;
    dict.set_item("gaps", gaps.iter().map(|gap| (gap.start.0, gap.end.0)).collect::<Vec<_>>())?;
    Ok(dict)
}
