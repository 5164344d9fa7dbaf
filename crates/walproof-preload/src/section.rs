//! Locks between processes, and the moment of the cut.
//!
//! A call that changes something is a section. After the cut none begins; when those under way have ended
//! (the counter is zero), the files and the log agree. A process may die anywhere else.

use std::sync::atomic::{AtomicU64, Ordering};

use walproof_disk::state::{Header, Void};

use crate::shared::Shared;
use crate::sys;

/// Stops this process for good: the power is off. It is ended by SIGKILL.
pub fn hang() -> ! {
    loop {
        sys::pause();
    }
}

/// While it lives the process is inside a tracked call.
pub struct Section(&'static Header);

impl Section {
    /// Enters, or never returns.
    pub fn enter(shared: Shared) -> Self {
        let header = shared.header;
        header.busy.fetch_add(1, Ordering::SeqCst);
        let section = Self(header);
        if header.cut.load(Ordering::SeqCst) != 0 {
            drop(section);
            hang();
        }
        section
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Cuts the power now. The caller leaves its section and hangs.
pub fn cut(shared: Shared) {
    shared.header.cut_power(sys::now_ns(libc::CLOCK_MONOTONIC));
}

/// A held lock.
pub struct Held(&'static AtomicU64);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Takes a lock. Its word holds the thread that has it, so that the lock of a dead one can be taken over: the
/// run is void then.
pub fn lock(header: &Header, word: &'static AtomicU64) -> Held {
    let me = sys::thread();
    let mut tries = 0u32;
    while let Err(owner) = word.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        tries = tries.wrapping_add(1);
        if tries < 64 {
            std::hint::spin_loop();
        } else {
            sys::yield_now();
        }
        let is_orphan = tries % 1024 == 1023 && owner != 0 && !sys::lives(owner);
        if is_orphan && word.compare_exchange(owner, me, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            header.declare_void(Void::ProcessDied);
            break;
        }
    }
    Held(word)
}

/// The lock of names: the ring of changes and the table of files.
pub fn lock_names(shared: Shared) -> Held {
    lock(shared.header, &shared.header.names_lock)
}
