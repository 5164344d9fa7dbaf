//! The Python module `walproof._native`: converts types, releases the GIL, maps errors. Decides nothing.

// The macros of pyo3 expand to unsafe code; this crate has none of its own, and no documented items.
#![allow(unsafe_code)]

mod records;
mod stats;

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{Error, Segments};

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

fn segments(paths: &[PathBuf]) -> Result<Arc<Segments>, Error> {
    Segments::from_paths(paths).map(Arc::new)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stats::wal_stats, module)?)?;
    module.add_class::<records::WalRecords>()
}
