//! A model of a disk with a volatile write cache under a PostgreSQL server.
//!
//! The live files stay where they are; the model remembers what the disk would still hold (undo). After a cut
//! of the power it gives images: states that the disk could have been left in, each from a seed.
//!
//! ```
//! use walproof_disk::{file_image, Change, ChangeKind, Moments, Rng, Source, Survival, Unit};
//!
//! // A file of 8 kB whose second block was overwritten; record 0 has what was there before.
//! let kind = ChangeKind::Data;
//! let changes = [(0, Change { kind, a: 4096, b: 4096, sequence: 1, time_ns: 0 })];
//! let moments = Moments { journal: 0, age: 0, age_spread: 0 };
//! let lost = file_image(&changes, 8192, Survival::Nothing, Unit::Sector4096, moments, &mut Rng::new(1));
//! assert_eq!(lost.patches.len(), 1);
//! assert_eq!(lost.patches[0].source, Source::Saved { record: 0, valid: 4096 });
//! let kept = file_image(&changes, 8192, Survival::Everything, Unit::Sector4096, moments, &mut Rng::new(1));
//! assert!(kept.patches.is_empty());
//! ```
//!
//! From the bottom up: `rng`, `device` (how long a flush takes), `event` (moments to cut at), `state` (the file
//! that a server's processes share), `undo`, `files`, `journal` (what is in it; these run inside the server's
//! calls: no allocation, no system call), `snapshot` (reading it back), `content` (one file after a cut),
//! `names` (which files exist), `image` (both).
//!
//! It is pure: it has no clock, no files, and no randomness but from seeds. Interception is in the crate
//! walproof-preload.

#![forbid(unsafe_code)]

mod content;
mod device;
mod event;
mod files;
mod image;
mod journal;
mod names;
mod rng;
mod snapshot;
pub mod state;
mod undo;

use thiserror::Error;

pub use content::{file_image, FileImage, Moments, Patch, Source, Survival, Unit};
pub use device::{take_turn, Device, Profile, PROFILES, QUANTUM_BYTES};
pub use event::{is_transient, Event, FileClass};
pub use files::{FileId, Files};
pub use image::{image, unflushed, Entry, Origin, Unflushed, Wish};
pub use journal::{op_id, Journal, NameChange, NameEntry, NameOp};
pub use names::{Node, Path, Tree};
pub use rng::{mix, Rng};
pub use snapshot::Snapshot;
pub use undo::{commit_age_ns, is_written_back, Change, ChangeKind, UndoLog};

/// Why there is no image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are not a state, or of another version.
    #[error("not the state of a simulated disk, or of another version")]
    NotAState,
    /// A configuration that does not fit the state file.
    #[error("too many folders, or a path is too long")]
    Config,
    /// The state could not be read.
    #[error("could not read the state of the simulated disk: {0}")]
    Io(#[from] std::io::Error),
    /// Something happened that the model did not see.
    #[error("the run is void: {}", why.reason())]
    Void {
        /// The first reason.
        why: state::Void,
    },
    /// The changes of names do not fit the files that exist.
    #[error("the log of names does not fit the files: {change:?} of \"{path}\"")]
    History {
        /// The change.
        change: NameChange,
        /// Its path.
        path: String,
    },
    /// A file whose contents are nowhere.
    #[error("the contents of \"{path}\" were not kept")]
    NoFile {
        /// Its path.
        path: String,
    },
}
