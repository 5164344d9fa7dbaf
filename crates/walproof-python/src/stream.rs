//! `WalLive`: what a recovery would have to do if the server crashed now, as its WAL arrives.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_recovery::{Live, LivePlan};
use walproof_wal::{Lsn, Totals};

use crate::fields::fields_dict;
use crate::rolling::WhatIfRolling;
use crate::wal_error;

/// Records, bytes of them without images, bytes of images, images.
type Columns = (u64, u64, u64, u64);

fn columns(totals: Totals) -> Columns {
    (totals.records, totals.record_bytes, totals.image_bytes, totals.image_count)
}

/// A server's WAL; see `_native.pyi`.
#[pyclass(module = "walproof._native")]
pub struct WalLive(Live);

#[pymethods]
impl WalLive {
    #[new]
    #[pyo3(signature = (segment_size, *, buffers, concurrency, read_ahead, redo, relations, trace_bytes, trace_folder))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        py: Python<'_>,
        segment_size: u32,
        buffers: Vec<u32>,
        concurrency: Option<u32>,
        read_ahead: u32,
        redo: Option<u64>,
        relations: usize,
        trace_bytes: u64,
        trace_folder: Option<PathBuf>,
    ) -> PyResult<WalLive> {
        let redo = redo.map(Lsn);
        let plan = LivePlan { buffers, concurrency, read_ahead, redo, relations, trace_bytes, trace_folder };
        Live::new(segment_size, plan).map(WalLive).map_err(|error| wal_error(py, &error))
    }

    /// Takes bytes; simulations of other settings take their records as well.
    #[pyo3(signature = (lsn, data, others=None))]
    fn observe(
        &mut self,
        py: Python<'_>,
        lsn: u64,
        data: &[u8],
        others: Option<PyRefMut<'_, WhatIfRolling>>,
    ) -> PyResult<()> {
        let lsn = Lsn(lsn);
        match others {
            None => py.detach(|| self.0.observe(lsn, data)),
            Some(mut others) => {
                let rolling = &mut others.0;
                py.detach(|| self.0.observe_with(lsn, data, &mut |record| rolling.add(record)))
            }
        }
        .map_err(|error| wal_error(py, &error))
    }

    /// What comes next may begin anywhere.
    fn restart(&mut self) {
        self.0.restart();
    }

    /// Where recovery begins.
    fn set_redo(&mut self, redo: u64) {
        self.0.set_redo(Lsn(redo));
    }

    /// The WAL goes on elsewhere.
    fn switch_timeline(&mut self, py: Python<'_>, timeline: u32, lsn: u64) -> PyResult<()> {
        self.0.switch_timeline(timeline, Lsn(lsn)).map_err(|error| wal_error(py, &error))
    }

    /// Simulates again; whether there is more to do.
    fn recompute(&mut self, py: Python<'_>, records: u64) -> bool {
        py.detach(|| self.0.recompute(records))
    }

    /// What there is at this moment.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (snapshot, causes) = py.detach(|| (self.0.snapshot(), self.0.causes()));
        let dict = fields_dict(py, &snapshot)?;
        let checkpoint = self.0.checkpoint().map(|checkpoint| {
            let is_shutdown = checkpoint.kind == walproof_wal::CheckpointKind::Shutdown;
            (checkpoint.lsn.0, checkpoint.redo.0, is_shutdown, checkpoint.time_unix_s)
        });
        dict.set_item("checkpoint", checkpoint)?;
        let rmgrs = causes.rmgrs.iter().map(|(rmgr, totals)| (rmgr.to_string(), columns(*totals)));
        dict.set_item("rmgrs", rmgrs.collect::<Vec<_>>())?;
        let relations = causes.relations.iter().map(|row| {
            let (at, made) = (row.relation, row.changes);
            let changes = (
                made.updates,
                made.update_bytes,
                made.update_runs,
                made.freezes,
                made.freeze_bytes,
                made.keys,
                made.key_images,
                made.key_image_bytes,
            );
            ((at.tablespace, at.database, at.relation), row.counted_from.0, columns(row.totals), changes)
        });
        dict.set_item("relations", relations.collect::<Vec<_>>())?;
        dict.set_item("others", columns(causes.others))?;
        dict.set_item("none", columns(causes.none))?;
        dict.set_item("commits", causes.commits)?;
        dict.set_item("aborts", causes.aborts)?;
        let gaps: Vec<_> = self.0.gaps().iter().map(|gap| (gap.start.0, gap.end.0)).collect();
        dict.set_item("gaps", gaps)?;
        Ok(dict)
    }
}
