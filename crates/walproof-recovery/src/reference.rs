//! The stream of block references that is simulated, in 8 bytes each.

use walproof_wal::{BlockRef, RmgrId};

use crate::brief::Brief;
use crate::pages::Page;

/// The most block references of a record (`XLR_MAX_BLOCK_ID` + 1, src/include/access/xlogrecord.h).
pub(crate) const RECORD_MOST: usize = 33;

/// A block reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) page: Page,
    pub(crate) flags: u32,
}

/// Replay builds the page without reading it: from an image that it applies, or from nothing.
pub(crate) const BUILT: u32 = 1;
/// The prefetcher does not look at it: it has an image, is initialised, or is not of the main fork.
pub(crate) const NOT_PREFETCHED: u32 = 2;
/// Last reference of its record.
pub(crate) const LAST: u32 = 4;
/// Replay does not touch the page: a hint-bit record without image.
pub(crate) const NOT_REPLAYED: u32 = 8;

/// The page is far from the previously referenced one of the same fork.
pub(crate) const FAR: u32 = 16;
/// The page that is read is newer than the record, which leaves it as it is.
pub(crate) const DONE: u32 = 32;
/// The record leaves the page's LSN alone, so the page is never newer than the record.
pub(crate) const UNMARKED: u32 = 64;

const FPI_FOR_HINT: u8 = 0xA0;

/// Which references carry an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// The references that do in the recording.
    #[default]
    Recorded,
    /// The first of each page: what a server with `full_page_writes` writes after a redo point at the beginning.
    First,
    /// The references whose image replay cannot do without: `full_page_writes=off`.
    Off,
}

/// What replay and the prefetcher do with a reference, without `LAST`. `is_new`: no reference named the page
/// before.
#[inline]
pub(crate) fn flags_of(record: &Brief<'_>, block: &BlockRef, images: Images, is_new: bool) -> u32 {
    let is_hint = record.rmgr == RmgrId::XLOG && record.info & 0xF0 == FPI_FOR_HINT;
    let is_forced = record.rmgr == RmgrId::XLOG && !is_hint;
    let is_applied = block.image.is_some_and(|image| image.apply);
    let (has_image, is_applied) = match images {
        Images::Recorded => (block.image.is_some(), is_applied),
        _ if is_forced && is_applied => (true, true),
        Images::First => (is_new && !block.will_init, is_new && !block.will_init),
        Images::Off => (false, false),
    };
    let mut flags = 0;
    if is_applied || block.will_init {
        flags |= BUILT;
    }
    if has_image || block.will_init || block.fork != 0 {
        flags |= NOT_PREFETCHED;
    }
    if is_hint && !has_image {
        flags |= NOT_REPLAYED;
    }
    // A heap page that becomes all-visible gets neither image nor location where hint bits are not logged: the first
    // record of a page that has no image tells.
    if is_new && block.image.is_none() && record.marks_visible && block.fork == 0 {
        flags |= UNMARKED;
    }
    flags
}

/// What happens between references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The page is dropped from `shared_buffers`, and its file with it.
    Drop(Page),
    /// Everything so far is to be summed up.
    Mark,
}

/// A piece of the stream: references of whole records, and events, each before the reference of that number in
/// the whole stream.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) references: Vec<Reference>,
    pub(crate) events: Vec<(u64, Event)>,
}
