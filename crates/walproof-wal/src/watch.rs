//! How far a pass over WAL has come, and how it is stopped from outside.
//!
//! Every pass reads files, so files are where bytes are counted and where a stop is noticed (`source`): before each
//! piece of 256 kB, on whatever thread reads it, and between pieces of what a decompressor is fed. No pass asks by
//! itself, and none can forget to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::Error;

/// Shared by whoever runs a pass and whoever waits for it.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_stopped: AtomicBool,
    done: AtomicU64,
    expected: AtomicU64,
}

// Counts only: nothing else is read by what they say, so no order is needed.
const ORDER: Ordering = Ordering::Relaxed;

impl Watch {
    /// Ends whatever reads, now and later: it fails with [`Error::Interrupted`].
    pub fn stop(&self) {
        self.0.is_stopped.store(true, ORDER);
    }

    /// Bytes of WAL that the present pass has read, and those that it will have read at its end, 0 when that is not
    /// known. WAL that ends early, or is read twice to find out why it ends, makes a difference.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.0.done.load(ORDER), self.0.expected.load(ORDER))
    }

    /// # Errors
    /// [`Error::Interrupted`] after a stop.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.is_stopped.load(ORDER) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// A pass over so many bytes begins.
    pub(crate) fn begin(&self, expected: u64) {
        self.0.expected.store(expected, ORDER);
        self.reach(0);
    }

    /// The pass is at that place, whatever was read.
    pub(crate) fn reach(&self, done: u64) {
        self.0.done.store(done, ORDER);
    }

    /// So many bytes more.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.done.fetch_add(bytes, ORDER);
    }
}
