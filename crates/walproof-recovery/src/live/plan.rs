//! What is asked of WAL that arrives.

use std::path::PathBuf;

use walproof_wal::{Lsn, ToValue, Value};

/// What to simulate and to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivePlan {
    /// As in [`Plan`](crate::Plan), as the next two.
    pub buffers: Vec<u32>,
    /// `maintenance_io_concurrency`.
    pub concurrency: Option<u32>,
    /// Pages of 8 kB that the kernel reads at once, at most.
    pub read_ahead: u32,
    /// Where recovery begins until a checkpoint completes: the redo point of the last one.
    pub redo: Option<Lsn>,
    /// Relations that are told apart, at least.
    pub relations: usize,
    /// Up to 16: the most bytes of the trace.
    pub trace_bytes: u64,
    /// Up to 16: the folder where a file without a name holds most of the trace; None: it is in memory, with
    /// no more than 64 MB.
    pub trace_folder: Option<PathBuf>,
}

/// Whether it is known what a recovery would have to do, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is.
    Known,
    /// A checkpoint moved the redo point, and the work since is not simulated yet.
    Recomputing,
    /// No redo point is known.
    NoCheckpoint,
    /// WAL has been missing since then.
    Hole,
    /// Up to 16: the redo point lay before what the trace had.
    TraceTooLong,
}

impl ToValue for State {
    fn to_value(&self) -> Value {
        Value::Text(match self {
            State::Known => "known",
            State::Recomputing => "recomputing",
            State::NoCheckpoint => "no checkpoint",
            State::Hole => "hole",
            State::TraceTooLong => "trace too long",
        })
    }
}
