//! `WhatIfRolling`: what other settings would have written in the last hours of a server's WAL, as it arrives.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::Lsn;
use walproof_whatif::{Rolling, RollingPlan, Target};

use crate::whatif::{target, whatif_dict, RawTarget};

/// Simulations of a server's WAL; see `_native.pyi`.
#[pyclass(module = "walproof._native")]
pub struct WhatIfRolling(pub(crate) Rolling);

#[pymethods]
impl WhatIfRolling {
    #[new]
    #[pyo3(signature = (system_identifier, segment_size, timeline, *, targets, most_pages, span_us, learn_bytes, learn_us))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        system_identifier: u64,
        segment_size: u32,
        timeline: u32,
        targets: Vec<RawTarget>,
        most_pages: u64,
        span_us: i64,
        learn_bytes: u64,
        learn_us: i64,
    ) -> PyResult<WhatIfRolling> {
        let targets = targets.into_iter().map(target).collect::<PyResult<Vec<Target>>>()?;
        let plan = RollingPlan { targets, most_pages, span_us, learn_bytes, learn_us };
        Ok(WhatIfRolling(Rolling::new(system_identifier, segment_size, timeline, plan)))
    }

    /// The WAL goes on elsewhere.
    fn switch_timeline(&mut self, timeline: u32, lsn: u64) {
        self.0.switch_timeline(timeline, Lsn(lsn));
    }

    /// Whether nothing is simulated any more.
    #[getter]
    fn is_overfull(&self) -> bool {
        self.0.is_overfull()
    }

    /// Bytes that are held.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }

    /// As `wal_whatif`.
    fn answer<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        py.detach(|| self.0.answer()).map(|found| whatif_dict(py, &found)).transpose()
    }
}
