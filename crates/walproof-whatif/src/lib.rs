//! Finds from one recording of WAL the WAL that other checkpoint settings would have written.
//!
//! A server logs a page as a whole, a full-page image, when the page's LSN is not after the redo point of the
//! last checkpoint. Every record names its pages, so a recording tells, for redo points anywhere else, which
//! references would have had an image and which would not: as the reference string of a cache tells the
//! misses of a cache of any size. Records are made again with or without their images, which moves the
//! locations of all that follows, and so the checkpoints that `max_wal_size` triggers.
//!
//! ```no_run
//! use walproof_wal::{Range, Segments};
//! use walproof_whatif::{simulate, Request, Target};
//!
//! let sizes = [1024, 4096, 16384];
//! let targets: Vec<Target> =
//!     sizes.iter().map(|&size| Target { max_wal_size_mb: Some(size), ..Target::default() }).collect();
//! let segments = Segments::from_paths(&["/var/lib/postgresql/15/main/pg_wal"])?;
//! let found = simulate(segments, Range::default(), &Request::new(&targets))?;
//! for (size, outcome) in sizes.iter().zip(&found.outcomes) {
//!     println!("{size} MB: {} bytes, {} images", outcome.wal_bytes, outcome.images);
//! }
//! # Ok::<(), walproof_wal::Error>(())
//! ```
//!
//! From the bottom up: `target` (the settings), `position` (bytes to locations), `clock` (locations to times),
//! `pages` (what is known about each
//! page), `sampler` (which pages, where not all), `pglz` and `images` (images compressed by each method), `growth` (how large an image would be),
//! `knowledge` (what the recording teaches about records), `recorded` (facts of the recording), `samples` (images of recordings that are blanked out), `lane` (one
//! simulated server and its checkpoints), `outcome`, `request`, `simulation` (the pass),
//! `rolling` (the same over WAL that arrives), `ranges` (the same pass over WAL that other machines read).
//!
//! Deliberately absent: clocks (one may be passed in), disks, and the load. The same statements are assumed to commit
//! at the same times whatever the settings.

#![forbid(unsafe_code)]

mod clock;
mod drawn;
mod growth;
mod images;
mod knowledge;
mod lane;
mod ordered;
mod outcome;
mod pages;
mod pglz;
mod position;
mod ranges;
mod recorded;
mod request;
mod rolling;
mod sampler;
mod samples;
mod simulation;
mod target;

pub use images::MethodSample;
pub use knowledge::ImageSample;
pub use outcome::{Cycles, Outcome};
pub use ranges::{Digest, Looks, Pass};
pub use recorded::{Agreement, Recorded, SourceCheckpoint};
pub use request::Request;
pub use rolling::{Rolling, RollingPlan};
pub use samples::{ForkSample, ImageSampler};
pub use simulation::{simulate, WhatIf};
pub use target::{ImageCompression, Target};
