//! The Python module `walproof._native`: converts types, releases the GIL, maps errors. Decides nothing but which
//! records are handed over (`filter`), and where a time is (`span`).

// The macros of pyo3 expand to unsafe code; this crate has none of its own, and no documented items.
#![allow(unsafe_code)]

mod disk;
mod ended;
mod fields;
mod filter;
mod parts;
mod ranges;
mod reading;
mod records;
mod recovery;
mod rolling;
mod source;
mod span;
mod stats;
mod stream;
mod strip;
mod told;
mod verify;
mod watched;
mod whatif;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::Error;

/// An exception of `walproof.errors` with message, detail and hint.
fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    detail: Option<String>,
    hint: Option<String>,
) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let parts = PyDict::new(py);
        parts.set_item("detail", detail)?;
        parts.set_item("hint", hint)?;
        let class = py.import("walproof.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call((message,), Some(&parts))?))
    };
    build().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

/// `walproof.errors.WalError`.
fn wal_error(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, "WalError", &error.to_string(), error.detail(), error.hint())
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stats::wal_stats, module)?)?;
    module.add_function(wrap_pyfunction!(whatif::wal_whatif, module)?)?;
    module.add_function(wrap_pyfunction!(whatif::wal_identity, module)?)?;
    module.add_function(wrap_pyfunction!(whatif::wal_written, module)?)?;
    module.add_function(wrap_pyfunction!(ranges::wal_digest, module)?)?;
    module.add_function(wrap_pyfunction!(ranges::wal_looks, module)?)?;
    module.add_class::<ranges::WhatIfPass>()?;
    module.add_function(wrap_pyfunction!(strip::wal_strip, module)?)?;
    module.add_function(wrap_pyfunction!(recovery::wal_recovery, module)?)?;
    module.add_function(wrap_pyfunction!(recovery::wal_last_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(verify::wal_verify, module)?)?;
    module.add_function(wrap_pyfunction!(verify::wal_join, module)?)?;
    module.add_function(wrap_pyfunction!(verify::wal_probe, module)?)?;
    module.add_function(wrap_pyfunction!(verify::wal_text, module)?)?;
    module.add_class::<parts::WalPart>()?;
    module.add_class::<records::WalRecords>()?;
    module.add_function(wrap_pyfunction!(span::wal_span, module)?)?;
    module.add_function(wrap_pyfunction!(filter::operation_names, module)?)?;
    module.add_class::<strip::WalStripper>()?;
    module.add_class::<told::WalRebuilder>()?;
    module.add_class::<stream::WalLive>()?;
    module.add_class::<rolling::WhatIfRolling>()?;
    disk::register(module)
}
