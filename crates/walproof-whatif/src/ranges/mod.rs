//! A simulation of WAL that is read in ranges, on several machines: exactly what [`simulate`](crate::simulate) finds.
//!
//! What a simulated server does next depends on all WAL before: where its redo point is on every image since, when a
//! page was touched last on every record, what images cost on the images seen so far. So the simulation itself
//! is one pass, in order, on one machine. What ranges can be read for apart from each other is all that comes before it:
//! fetching, unpacking, checking and taking apart the WAL. A range leaves its records without contents ([`Digest`]).
//!
//! Only contents of images are missing then, of which the simulation compresses a sample. Which ones is known without
//! them (`draw`), so whoever has the WAL looks at these ([`Looks`]), and [`Pass`] puts all together.

mod digest;
mod draw;
mod form;
mod looks;
mod pass;

pub use digest::Digest;
pub use looks::Looks;
pub use pass::Pass;
