//! What must hold whatever the bytes: a function for each fuzz target.
//!
//! libFuzzer calls them (`fuzz/fuzz_targets`, a line each) with what it makes, `tests/corpus.rs` with what it found
//! worth keeping (`fuzz/corpus`). Each checks more than that nothing panics: lengths add up, what is read in parts is
//! what is read in order, what is packed unpacks to the same, what is stripped twice is what is stripped once.
//!
//! `forged` makes WAL of the bytes: records whose headers and checksums are right, over several segments, so that the
//! bytes get to what is behind these checks.

#![forbid(unsafe_code)]

mod archive;
#[allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#[path = "../../walproof-wal/tests/support/forge.rs"]
mod forge;
mod forged;
mod history;
mod page;
mod parallel;
mod part;
mod record;
mod recovery;
mod stream;
mod strip;
mod verify;
mod whatif;

pub use archive::archive;
pub use history::history;
pub use page::page;
pub use parallel::parallel;
pub use part::part;
pub use record::record;
pub use recovery::recovery;
pub use stream::stream;
pub use strip::strip;
pub use verify::verify;
pub use whatif::whatif;

/// A check of any bytes; it panics where something does not hold.
pub type Check = fn(&[u8]);

/// Every target, by its name: that of its folder in `fuzz/corpus`, and of its program.
pub const TARGETS: [(&str, Check); 11] = [
    ("archive", archive),
    ("history", history),
    ("page", page),
    ("parallel", parallel),
    ("part", part),
    ("record", record),
    ("recovery", recovery),
    ("stream", stream),
    ("strip", strip),
    ("verify", verify),
    ("whatif", whatif),
];
