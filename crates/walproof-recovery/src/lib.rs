//! Finds the work that crash recovery has with recorded WAL.
//!
//! How long recovery takes depends on the machine; what it has to do does not, and all of it can be read from
//! the WAL between the redo point and its end: records and bytes, images to restore, which references find their
//! page in `shared_buffers` (simulated, of any size), which pages must come from the disk and which are fetched
//! for nothing, and how many dirty pages the checkpoint at the end has to write.
//!
//! ```no_run
//! use walproof_recovery::{analyse, last_checkpoint, Plan};
//! use walproof_wal::{Range, Segments};
//! use std::sync::Arc;
//!
//! let segments = Arc::new(Segments::from_paths(&["/var/lib/postgresql/15/main/pg_wal"])?);
//! let checkpoint = last_checkpoint(&segments, Range::default(), 2)?;
//! let start = checkpoint.map(|checkpoint| checkpoint.redo);
//! let plan = Plan { buffers: vec![16_384, 131_072], ..Plan::default() };
//! let found = analyse(segments, Range { start, ..Range::default() }, &plan)?;
//! for (buffers, pool) in plan.buffers.iter().zip(&found.last().pools) {
//!     println!("{buffers} buffers: {} pages read, {} dirty at the end", pool.reads, pool.resident);
//! }
//! # Ok::<(), walproof_wal::Error>(())
//! ```
//!
//! From the bottom up: `pages` (numbers of pages), `dropped` (what records remove), `kinds` (which records come
//! unexpected), `brief` (what is needed of a record),
//! `reference` (the stream that is simulated), `recent` (which pages a processor's caches still hold),
//! `lanes` (sizes of `shared_buffers` side by side), `prefetchers` (what looks ahead in each), `pool`
//! (`shared_buffers`), `ahead` (what the kernel reads by itself), `dirty` (what the checkpoint has to do), `written`
//! (pages that are newer than their records), `work` (counts of records), `counter` (from records to that stream), `redo` (where recovery begins), `analysis`
//! (the pass), `live` (the same while the WAL arrives).
//!
//! Deliberately absent: time, which is the business of whoever has measured a machine, and pages' contents: which pages
//! on disk are newer than their records is simulated, too.

#![forbid(unsafe_code)]

mod ahead;
mod analysis;
mod brief;
mod counter;
mod dirty;
mod dropped;
mod kinds;
mod lanes;
mod live;
mod pages;
mod pool;
mod prefetchers;
mod recent;
mod redo;
mod reference;
mod work;
mod written;

pub use analysis::{analyse, Features, Plan, Recovery};
pub use live::{Causes, Changes, Clock, Live, LivePlan, RelationCause, Snapshot, State};
pub use pool::PoolWork;
pub use recent::{DISTANT_PAGES, RECENT_PAGES};
pub use redo::last_checkpoint;
pub use reference::Images;
pub use work::{ImageWork, StoredImages, Work};
