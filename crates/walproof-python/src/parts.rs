//! `WalPart`: a part of WAL that can be sent, kept and joined.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use walproof_wal::{join, Error, Lsn, Part, Range, Watch};

use crate::source::{segments, RawSource};
use crate::stats::stats_dict;
use crate::wal_error;
use crate::watched::{watched, Observe};

/// A part; see `_native.pyi`.
#[pyclass(module = "walproof._native")]
pub struct WalPart(Option<Part>);

#[pymethods]
impl WalPart {
    /// Reads a part of the WAL in folders and files.
    #[staticmethod]
    #[pyo3(signature = (paths, start, end, timeline, *, threads, observe=None))]
    fn read(
        py: Python<'_>,
        paths: Vec<RawSource>,
        start: Option<u64>,
        end: Option<u64>,
        timeline: Option<u32>,
        threads: usize,
        observe: Observe<'_>,
    ) -> PyResult<WalPart> {
        let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps: false };
        let watch = Watch::default();
        let part =
            watched(py, &watch, observe.as_ref(), || Part::read(segments(paths, &watch)?, range, threads))?;
        Ok(WalPart(Some(part)))
    }

    /// The part in a file's bytes.
    #[staticmethod]
    fn of_bytes(py: Python<'_>, data: &[u8]) -> PyResult<WalPart> {
        let part = Part::from_bytes(data).map_err(|error| wal_error(py, &error))?;
        Ok(WalPart(Some(part)))
    }

    /// Appends the part that follows. After an error nothing is left of this one.
    fn append(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let part = self.take()?;
        let joined = Part::from_bytes(data)
            .and_then(|next| join(part, next))
            .map_err(|error| wal_error(py, &error))?;
        self.0 = Some(joined);
        Ok(())
    }

    /// The bytes of a file that holds it.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.get()?.to_bytes()))
    }

    /// Whose WAL it is, and from where to where.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let part = self.get()?;
        let (identity, bounds) = (part.identity(), part.bounds());
        let dict = PyDict::new(py);
        dict.set_item("version", identity.version.major())?;
        dict.set_item("system_identifier", identity.system_identifier)?;
        dict.set_item("segment_size", identity.segment_size)?;
        dict.set_item("start", bounds.0 .0)?;
        dict.set_item("end", bounds.1 .0)?;
        dict.set_item("first_record", part.records().map(|(first, _)| first.0))?;
        dict.set_item("last_record", part.records().map(|(_, last)| last.0))?;
        dict.set_item("first_timeline", part.timelines().0)?;
        dict.set_item("last_timeline", part.timelines().1)?;
        dict.set_item("is_open", part.is_open())?;
        Ok(dict)
    }

    /// The totals, in the shape of `wal_stats`. Nothing is left of the part.
    fn stats<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told: Result<_, Error> = self.take()?.into_stats();
        let (stats, finish) = told.map_err(|error| wal_error(py, &error))?;
        stats_dict(py, &stats, &Ok(finish))
    }
}

impl WalPart {
    fn get(&self) -> PyResult<&Part> {
        self.0.as_ref().ok_or_else(used_up)
    }

    fn take(&mut self) -> PyResult<Part> {
        self.0.take().ok_or_else(used_up)
    }
}

fn used_up() -> PyErr {
    PyValueError::new_err("nothing is left of this part")
}
