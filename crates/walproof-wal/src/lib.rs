//! Reads the write-ahead log of PostgreSQL 13 to 19.
//!
//! Bytes become pages, pages become records, and a record is its header, its block references with their
//! full-page images, and its main data. Every page header, every link between records and every checksum is
//! verified; damage is an [`Error`] with a location and pg_waldump's words, never a panic. Memory does not
//! grow with the WAL.
//!
//! ```
//! use walproof_wal::{Range, Reader, Segments};
//!
//! # // A segment of one page with one record, XLOG/NOOP.
//! # let mut page = vec![0u8; 8192];
//! # let mut record = vec![24u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0];
//! # let crc = walproof_wal::checksum(&record).unwrap_or_default();
//! # record.splice(20.., crc.to_le_bytes());
//! # page.splice(0..4, [0x18, 0xD1, 2, 0]);
//! # page.splice(4..5, [1]);
//! # page.splice(10..11, [0x10]);
//! # page.splice(32..40, [0, 0, 0x10, 0, 0, 0x20, 0, 0]);
//! # page.splice(40..64, record);
//! # let folder = std::env::temp_dir().join(format!("walproof-example-{}", std::process::id()));
//! # std::fs::create_dir(&folder).unwrap();
//! # let pg_wal = folder.join("000000010000000000000001");
//! # std::fs::write(&pg_wal, page).unwrap();
//! // A server's pg_wal folder, or a single segment.
//! let mut reader = Reader::open(Segments::from_paths(&[&pg_wal])?, Range::default())?;
//! let mut operations = Vec::new();
//! while let Some(record) = reader.next_record()? {
//!     operations.push((record.lsn.to_string(), record.operation().to_string()));
//! }
//! assert_eq!(operations, [("0/100028".to_owned(), "XLOG/NOOP".to_owned())]);
//! assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), walproof_wal::Error>(())
//! ```
//!
//! From the bottom up: `lsn` (locations, segment names), `version`, `page`, `image`, `fields` (structs that tell their
//! fields by name), `block`, `record`, `rmgr` (names of operations), `watch` (progress, and the stop from outside), `source` (files), `pages` (files as one sequence of pages), `reader` (records in
//! order), `feed` (records of bytes that arrive), `transaction` (checkpoints, commits), `visibility` (pruning, the visibility map), `line` (records as text), `relations`, `rate` and `tally` (totals that can be put
//! together from parts), `parallel` (parts on several cores), `stats` (the whole), `edge` (records over the edges of segments), `part` (parts of other machines), `strip` (segments without contents), `told` (WAL made again from what a server tells of its records), `verify` (files apart from each other, whatever is wrong), `page_table` (for simulations over records). No module knows one further
//! down this list.
//!
//! Deliberately absent: what a record does to a page (this crate describes, it does not replay), and names of
//! relations (they are in the catalogs, not in the WAL).

#![forbid(unsafe_code)]

mod accounting;
mod block;
mod bytes;
pub mod data_page;
mod edge;
mod error;
mod feed;
mod fields;
mod image;
mod line;
mod lsn;
mod page;
mod page_table;
mod pages;
mod parallel;
mod part;
mod rate;
mod reader;
mod record;
mod relations;
mod rmgr;
mod source;
mod stats;
mod strip;
mod tally;
mod told;
mod transaction;
pub mod verify;
mod version;
mod visibility;
mod watch;

pub use accounting::Accounting;
pub use block::{BlockRef, RelFileLocator};
pub use error::{Error, Invalid};
pub use feed::Feed;
pub use fields::{ByMethod, ToValue, Value};
pub use image::{Compression, Image, BLOCK_SIZE};
pub use line::Style;
pub use lsn::{Lsn, SegmentName};
pub use page::{LongHeader, PageHeader, PAGE_SIZE};
pub use page_table::{ForkNumber, Forks, PageTable};
pub use pages::WalIdentity;
pub use part::{join, Part};
pub use rate::{Minute, Rate};
pub use reader::{Finish, Gap, Range, Reader};
pub use record::{checksum, Record, RecordHeader};
pub use relations::{RelationTotals, Relations};
pub use rmgr::{Operation, RmgrId};
pub use source::{Locked, Object, Objects, Piece, Place, SegmentFile, Segments, Source, PIECE_SIZE};
pub use stats::Stats;
pub use strip::{reduced, strip, Reduced, Stream, Stripped};
pub use tally::{ImageTotals, MethodTotals, Totals, TransactionTotals};
pub use told::{Rebuilder, ToldBlock, ToldRecord, Untold};
pub use transaction::{Checkpoint, CheckpointKind, Outcome, TransactionEnd};
pub use version::PgVersion;
pub use visibility::{PruneFlags, VISIBILITY_MAP};
pub use watch::Watch;
