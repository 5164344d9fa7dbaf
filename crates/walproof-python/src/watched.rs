//! A pass that Python waits for: on a thread of its own, so that meanwhile signals are answered and progress is told.
//!
//! Python handles signals on its main thread alone, and a pass may hold that for hours, or wait there for the threads
//! that read. So whoever calls waits, and looks up from time to time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::prelude::*;
use walproof_wal::{Error, Watch};

use crate::wal_error;

/// How often signals are looked for: some 50 MB of WAL, and not felt by who pressed Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Called with bytes done and bytes expected; None where nobody wants to know.
pub type Observe<'py> = Option<Bound<'py, PyAny>>;

/// Runs a pass without the GIL. What a signal's handler or `observe` raises stops it, and is raised.
///
/// # Errors
/// Theirs; `WalError` for those of the pass.
pub fn watched<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    observe: Option<&Bound<'_, PyAny>>,
    pass: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over, thread::current());
        let worker =
            thread::Builder::new().name("walproof-pass".to_owned()).spawn_scoped(scope, move || {
                let _over = over;
                pass()
            })?;
        let mut raised = None;
        loop {
            // Asked before, so that the last look is at the end of the pass.
            let was_over = is_over.load(Ordering::Acquire);
            if raised.is_none() {
                raised = look(py, watch, observe).err();
                if raised.is_some() {
                    watch.stop();
                }
            }
            if was_over {
                break;
            }
            py.detach(|| thread::park_timeout(LOOK_EVERY));
        }
        match (worker.join(), raised) {
            (Err(panic), _) => std::panic::resume_unwind(panic),
            (Ok(_), Some(error)) => Err(error),
            (Ok(result), None) => result.map_err(|error| wal_error(py, &error)),
        }
    })
}

fn look(py: Python<'_>, watch: &Watch, observe: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    if let Some(observe) = observe {
        observe.call1(watch.progress())?;
    }
    Ok(())
}

/// Wakes who waits when the pass ends, in whatever way.
struct Over<'a>(&'a AtomicBool, Thread);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}
