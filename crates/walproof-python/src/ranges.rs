//! `wal_digest`, `wal_looks` and `WhatIfPass`: a simulation of WAL that is read in ranges; see `_native.pyi`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use walproof_wal::{Lsn, Range, Watch};
use walproof_whatif::{Digest, Looks, Pass};

use crate::source::{segments, RawSource};
use crate::strip::{fork_samples, nanoseconds};
use crate::watched::watched;
use crate::whatif::{target, whatif_dict, RawRequest};

/// The records from `start` to `end` that begin before `until`, without contents; None where the WAL ends before.
#[pyfunction]
pub fn wal_digest<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    start: Option<u64>,
    end: Option<u64>,
    timeline: Option<u32>,
    until: Option<u64>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps: false };
    let watch = Watch::default();
    let bytes = watched(py, &watch, None, || {
        let digest = Digest::read(segments(paths, &watch)?, range, until.map(Lsn))?;
        Ok(digest.map(|digest| digest.to_bytes()))
    })?;
    Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
}

/// Images, each by its record and the number of its reference, compressed to see.
#[pyfunction]
pub fn wal_looks<'py>(
    py: Python<'py>,
    paths: Vec<RawSource>,
    timeline: Option<u32>,
    wanted: Vec<(u64, u8)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let wanted: Vec<(Lsn, u8)> = wanted.into_iter().map(|(lsn, id)| (Lsn(lsn), id)).collect();
    let watch = Watch::default();
    let bytes = watched(py, &watch, None, || {
        Ok(Looks::read(&segments(paths, &watch)?, timeline, &wanted, &nanoseconds)?.to_bytes())
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The pass over digests.
#[pyclass(module = "walproof._native")]
pub struct WhatIfPass(Option<Pass>);

#[pymethods]
impl WhatIfPass {
    #[new]
    fn new(request: RawRequest) -> PyResult<WhatIfPass> {
        let targets = request.targets.into_iter().map(target).collect::<PyResult<_>>()?;
        let times = request.times.into_iter().map(|(lsn, time_us)| (Lsn(lsn), time_us)).collect();
        let (rows, spent) = request.samples;
        let samples = fork_samples(&rows);
        Ok(WhatIfPass(Some(Pass::new(targets, times, request.most_pages, (&samples, spent)))))
    }

    /// Images that are wanted of the digest; whether it reaches past what is learned from before.
    fn draw(&mut self, py: Python<'_>, digest: &[u8], is_learning: bool) -> PyResult<(Vec<(u64, u8)>, bool)> {
        let pass = self.pass()?;
        let (wanted, is_past) = py.detach(|| Ok::<_, PyErr>(pass.draw(&read(digest)?, is_learning)))?;
        Ok((wanted.into_iter().map(|(lsn, id)| (lsn.0, id)).collect(), is_past))
    }

    /// What was seen of images.
    fn look(&mut self, py: Python<'_>, looks: &[u8]) -> PyResult<()> {
        let pass = self.pass()?;
        py.detach(|| {
            pass.look(Looks::from_bytes(looks).ok_or_else(no_form)?);
            Ok(())
        })
    }

    /// Learns from a digest of the beginning.
    fn learn(&mut self, py: Python<'_>, digest: &[u8]) -> PyResult<()> {
        let pass = self.pass()?;
        py.detach(|| {
            pass.learn(&read(digest)?);
            Ok(())
        })
    }

    /// Simulates the digest that follows.
    fn add(&mut self, py: Python<'_>, digest: &[u8]) -> PyResult<()> {
        let pass = self.pass()?;
        py.detach(|| {
            pass.add(&read(digest)?);
            Ok(())
        })
    }

    /// The answer in the shape of `wal_whatif`; None where the digests did not fit. Nothing is left of the pass.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let pass = self.0.take().ok_or_else(used_up)?;
        py.detach(|| pass.finish()).map(|found| whatif_dict(py, &found)).transpose()
    }
}

impl WhatIfPass {
    fn pass(&mut self) -> PyResult<&mut Pass> {
        self.0.as_mut().ok_or_else(used_up)
    }
}

fn read(digest: &[u8]) -> PyResult<Digest> {
    Digest::from_bytes(digest).ok_or_else(no_form)
}

fn no_form() -> PyErr {
    PyValueError::new_err("what a host sent has no form that is known here")
}

fn used_up() -> PyErr {
    PyValueError::new_err("nothing is left of this pass")
}
