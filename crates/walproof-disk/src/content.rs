//! What one file could hold after a power cut.
//!
//! A file is cut into survival units (sectors). Each was overwritten some times since the last flush that
//! covered it, and the disk holds any one of its versions: the durable one, one in between, or the newest.
//! Its size is any that it had, too. What a truncation cut off is there exactly when the truncation is not.

use std::collections::BTreeMap;

use crate::rng::Rng;
use crate::state::BLOCK;
use crate::undo::{Change, ChangeKind};

/// PostgreSQL extends relations in pages, and filesystems move the end of a file by whole pages.
const SIZE_STEP: u64 = 8192;

/// The smallest part of a write that is written as a whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 512 bytes: a sector of most disks, the harshest.
    Sector512,
    /// 4 KiB: a sector of a 4Kn disk, a page of the kernel's cache.
    Sector4096,
    /// 8 KiB: storage that never tears a page of PostgreSQL.
    Page8192,
}

impl Unit {
    /// Its size.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Sector512 => 512,
            Self::Sector4096 => 4096,
            Self::Page8192 => 8192,
        }
    }

    /// From its size.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            512 => Some(Self::Sector512),
            4096 => Some(Self::Sector4096),
            8192 => Some(Self::Page8192),
            _ => None,
        }
    }
}

/// How much of what was not flushed survives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Survival {
    /// Nothing: only what was flushed.
    Nothing,
    /// Everything, as after kill -9.
    Everything,
    /// Each unit on its own, with this probability; the rest hold an older version, any of them.
    Random(f64),
    /// Roughly what is older than a moment, because dirty data is written back in the order of its age.
    ByAge,
}

/// The moments of one image, in numbers of changes.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Truncations and changes of names up to this one survive.
    pub journal: u64,
    /// For data: where [`Survival::ByAge`] cuts.
    pub age: u64,
    /// How far the cut spreads around it.
    pub age_spread: u64,
}

/// Where the bytes of a part come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Zeros.
    Zeros,
    /// A record's block, from this offset in it; after its `valid` bytes there are zeros.
    Saved {
        /// The record's index.
        record: u64,
        /// Bytes of the block that existed.
        valid: u64,
    },
    /// A file of the graveyard that holds what was cut off from offset `start` of this file.
    Side {
        /// The number in its name.
        sequence: u64,
        /// Offset in this file of its first byte.
        start: u64,
        /// Its bytes.
        valid: u64,
    },
}

/// A part of a file that differs from the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the file.
    pub at: u64,
    /// Bytes; never across a block's end.
    pub length: u64,
    /// Its contents.
    pub source: Source,
}

/// What the file holds: the live one, with patches, cut or filled with zeros to a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileImage {
    /// Its size.
    pub size: u64,
    /// In ascending order.
    pub patches: Vec<Patch>,
}

struct Size {
    bytes: u64,
    /// Truncations that survive: numbers and the sizes that they left.
    survived: Vec<(u64, u64)>,
    /// Truncations that do not survive.
    lost: Vec<(u64, u64)>,
}

/// An image of a file with these changes (index of the record, change; oldest first), whose live size is given.
#[must_use]
pub fn file_image(
    changes: &[(u64, Change)],
    live_size: u64,
    survival: Survival,
    unit: Unit,
    moments: Moments,
    rng: &mut Rng,
) -> FileImage {
    let size = choose_size(changes, live_size, survival, moments, rng);
    let blocks = versions(changes, live_size);
    let mut patches = Vec::new();
    let mut done_to = 0;
    for block in blocks.keys() {
        let first = block * BLOCK;
        // Units smaller than a block: several in it; larger: this block and the next.
        let mut at = first / unit.bytes() * unit.bytes();
        while at < first + BLOCK {
            let end = at + unit.bytes();
            if end > done_to && at < size.bytes {
                patch_unit(&blocks, at, end, &size, survival, moments, rng, &mut patches);
                done_to = end;
            }
            at = end;
        }
    }
    FileImage { size: size.bytes, patches }
}

/// For each block its changes, oldest first, each with what it held before that number.
fn versions(changes: &[(u64, Change)], live_size: u64) -> BTreeMap<u64, Vec<(u64, Source)>> {
    let mut blocks: BTreeMap<u64, Vec<(u64, Source)>> = BTreeMap::new();
    let longest = changes.iter().filter(|(_, change)| change.kind == ChangeKind::Shrink);
    let longest = longest.map(|(_, change)| change.a).max().unwrap_or(0).max(live_size);
    for (record, change) in changes {
        let mut push = |block: u64, source| {
            blocks.entry(block).or_default().push((change.sequence, source));
        };
        match change.kind {
            ChangeKind::Data => {
                push(change.a / BLOCK, Source::Saved { record: *record, valid: change.b });
            }
            ChangeKind::Side => {
                let end = change.a.saturating_add(change.b);
                for block in change.a / BLOCK..end.div_ceil(BLOCK) {
                    push(block, Source::Side { sequence: change.sequence, start: change.a, valid: change.b });
                }
            }
            ChangeKind::Grow => {
                for block in change.a.div_ceil(BLOCK)..change.b.min(longest).div_ceil(BLOCK) {
                    push(block, Source::Zeros);
                }
            }
            ChangeKind::Shrink => {}
        }
    }
    blocks
}

fn choose_size(
    changes: &[(u64, Change)],
    live_size: u64,
    survival: Survival,
    moments: Moments,
    rng: &mut Rng,
) -> Size {
    let sizes: Vec<&Change> = changes
        .iter()
        .map(|(_, change)| change)
        .filter(|change| matches!(change.kind, ChangeKind::Grow | ChangeKind::Shrink))
        .collect();
    let mut base = sizes.first().map_or(live_size, |change| change.a);
    let mut top = base;
    let (mut survived, mut lost) = (Vec::new(), Vec::new());
    for change in sizes {
        match change.kind {
            ChangeKind::Shrink if change.sequence <= moments.journal => {
                survived.push((change.sequence, change.b));
                base = change.b;
                top = change.b;
            }
            ChangeKind::Shrink => {
                if lost.is_empty() {
                    // Exactly: growth before it may have been logged with an open end.
                    top = change.a;
                }
                lost.push((change.sequence, change.b));
            }
            // Behind a truncation that is lost, nothing has happened to the size.
            _ if lost.is_empty() => top = top.max(change.b),
            _ => {}
        }
    }
    if lost.is_empty() {
        // Open ends, and growth that was logged but did not happen.
        top = top.min(live_size);
        base = base.min(top);
    }
    let bytes = match survival {
        Survival::Nothing => base,
        Survival::Everything => top,
        Survival::Random(keep) if rng.chance(keep) => top,
        _ => {
            let steps = (top - base).div_ceil(SIZE_STEP);
            let whole = (base / SIZE_STEP + rng.below(steps + 1)) * SIZE_STEP;
            if whole <= base {
                base
            } else {
                whole.min(top)
            }
        }
    };
    Size { bytes, survived, lost }
}

#[allow(clippy::too_many_arguments)] // one step of file_image, cut out to be readable
fn patch_unit(
    blocks: &BTreeMap<u64, Vec<(u64, Source)>>,
    at: u64,
    end: u64,
    size: &Size,
    survival: Survival,
    moments: Moments,
    rng: &mut Rng,
    patches: &mut Vec<Patch>,
) {
    let mut numbers: Vec<u64> = (at / BLOCK..end.div_ceil(BLOCK))
        .filter_map(|block| blocks.get(&block))
        .flatten()
        .map(|(sequence, _)| *sequence)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    // What a truncation cut off here is there exactly when the truncation is not. The unit that the new end is
    // in was written as it is since then, unless the file still ends there, or nothing at all survives.
    let is_older_possible = |left: u64| at < left && (size.bytes <= left || survival == Survival::Nothing);
    let mut behind = size.survived.iter().filter(|(_, left)| end > *left);
    if let Some((sequence, _)) = behind.rfind(|(_, left)| !is_older_possible(*left)) {
        numbers.retain(|number| number > sequence);
    }
    let mut live_possible = true;
    if let Some((sequence, _)) = size.lost.iter().find(|(_, left)| end > *left) {
        numbers.retain(|number| number <= sequence);
        live_possible = false;
    }
    // The version before one of these numbers; None is the live one.
    let newest = if live_possible { None } else { numbers.last().copied() };
    let older = if live_possible { numbers.len() } else { numbers.len().saturating_sub(1) };
    let chosen = match survival {
        Survival::Nothing => numbers.first().copied(),
        Survival::Everything => newest,
        Survival::Random(keep) => {
            if rng.chance(keep) {
                newest
            } else if older > 1 && rng.chance(0.5) {
                let index = usize::try_from(rng.below(older as u64)).unwrap_or(0);
                numbers.get(index).copied()
            } else {
                numbers.first().copied()
            }
        }
        Survival::ByAge => {
            let spread = rng.below(moments.age_spread + 1);
            let moment = (moments.age + spread).saturating_sub(moments.age_spread / 2);
            numbers.iter().copied().find(|number| *number > moment).or(newest)
        }
    };
    let Some(before) = chosen else { return };
    // Of a unit that is older than a truncation within it, the part after that is zeros.
    let cut = size.survived.iter().filter(|(sequence, left)| *sequence >= before && *left < end);
    let cut = cut.map(|(_, left)| *left).min().unwrap_or(end);
    for block in at / BLOCK..end.div_ceil(BLOCK) {
        let Some(changes) = blocks.get(&block) else { continue };
        let Some((_, source)) = changes.iter().find(|(sequence, _)| *sequence >= before) else { continue };
        let from = at.max(block * BLOCK);
        let to = end.min((block + 1) * BLOCK).min(size.bytes);
        for (from, to, source) in [(from, to.min(cut), *source), (from.max(cut), to, Source::Zeros)] {
            if from < to {
                patches.push(Patch { at: from, length: to - from, source });
            }
        }
    }
}
