//! A crash image: one of the states that the disk could have been left in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use crate::content::{file_image, FileImage, Moments, Survival, Unit};
use crate::files::FileId;
use crate::journal::{NameChange, NameOp};
use crate::names::{close, rewind, Node, Path, Tree};
use crate::rng::{mix, Rng};
use crate::snapshot::Snapshot;
use crate::undo::{commit_age_ns, is_written_back, Change, ChangeKind};
use crate::Error;

/// Which image.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The same seed gives the same image.
    pub seed: u64,
    /// How much survives.
    pub survival: Survival,
    /// In which units.
    pub unit: Unit,
}

/// Where a file's live contents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the live tree.
    Live(Path),
    /// In the graveyard of a root, under this name.
    Graveyard(u8, String),
}

/// One name of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder(Path),
    /// A symbolic link and its target.
    Symlink(Path, Vec<u8>),
    /// A file with the contents at the origin, changed as said; None: as they are.
    File(Path, Origin, Option<FileImage>),
}

/// The changes of a file with their records, and whether a flush of it failed.
type Pending = (Vec<(u64, Change)>, bool);

/// Files with changes that are not flushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unflushed {
    /// The file.
    pub id: FileId,
    /// Number of its oldest change.
    pub oldest_sequence: u64,
    /// Changes.
    pub changes: u64,
}

/// Files whose changes up to `sequence` no flush has covered: after a checkpoint that began at that number,
/// each is a missing fsync. Files that nobody would miss are not told apart here.
#[must_use]
pub fn unflushed(snapshot: &Snapshot, sequence: u64) -> Vec<Unflushed> {
    let undo = snapshot.undo();
    snapshot
        .files()
        .in_use()
        .filter_map(|(id, slot)| {
            let oldest_sequence = undo.oldest(slot)?.sequence;
            let changes = undo.changes(slot).count() as u64;
            (oldest_sequence <= sequence).then_some(Unflushed { id, oldest_sequence, changes })
        })
        .collect()
}

/// The image that was asked for. `live` is the tree as the processes left it, `sizes` the sizes of its files
/// and of those in the graveyard.
///
/// # Errors
/// [`Error::Void`] when something happened that was not seen, [`Error::History`] when the changes of names do
/// not fit the tree, [`Error::NoFile`] when the contents of a file are nowhere.
pub fn image(
    snapshot: &Snapshot,
    live: Tree,
    sizes: &BTreeMap<FileId, u64>,
    wish: &Wish,
) -> Result<Vec<Entry>, Error> {
    if let Some(why) = snapshot.void().first() {
        return Err(Error::Void { why: *why });
    }
    let header = &snapshot.header;
    let now_ns = header.cut_monotonic_ns.load(Relaxed);
    let writeback_ns = header.writeback_ns.load(Relaxed);
    let last = header.sequence.load(Relaxed);
    let ops: Vec<NameOp> =
        snapshot.journal().pending().map(NameOp::read).collect::<Option<_>>().ok_or(Error::NotAState)?;
    let is_old = |op: &&NameOp| is_written_back(op.time_ns, now_ns, commit_age_ns(writeback_ns));
    let aged = ops.iter().filter(is_old).map(|op| op.sequence).max().unwrap_or(0);
    let committed = header.journal_sequence.load(Relaxed).max(aged);
    let mut changes = BTreeMap::new();
    for (id, slot) in snapshot.files().in_use() {
        let list: Vec<(u64, Change)> = snapshot.undo().changes(slot).collect();
        let failed = slot.failed.load(Relaxed) != 0;
        let written_back = list
            .first()
            .is_some_and(|(_, oldest)| !failed && is_written_back(oldest.time_ns, now_ns, writeback_ns));
        if !list.is_empty() && !written_back {
            changes.insert(id, (list, failed));
        }
    }
    let mut rng = Rng::new(mix(wish.seed));
    let moments = choose_moments(&ops, &changes, committed, last, wish.survival, &mut rng);
    let strict = header.strict.load(Relaxed) != 0;
    let survives: Vec<bool> = if strict {
        // A flush of a file commits the journal, on which strict POSIX does not rely.
        let durable: Vec<bool> = ops.iter().map(|op| op.flushed || op.sequence <= aged).collect();
        let wanted: Vec<bool> = ops
            .iter()
            .map(|op| match wish.survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Random(keep) => rng.chance(keep),
                Survival::ByAge => op.sequence <= moments.age,
            })
            .collect();
        close(&ops, &durable, &wanted)
    } else {
        ops.iter().map(|op| op.sequence <= moments.journal).collect()
    };
    let homes = homes(&live, &ops);
    let tree = rewind(live, &ops, &survives)?;
    let mut entries = Vec::with_capacity(tree.len());
    let mut made: BTreeMap<FileId, Option<FileImage>> = BTreeMap::new();
    for (path, node) in tree {
        let id = match node {
            Node::Folder => {
                entries.push(Entry::Folder(path));
                continue;
            }
            Node::Symlink(target) => {
                entries.push(Entry::Symlink(path, target));
                continue;
            }
            Node::File(id) => id,
        };
        let missing = || Error::NoFile { path: String::from_utf8_lossy(&path.1).into_owned() };
        let origin = homes.get(&id).cloned().ok_or_else(missing)?;
        let size = *sizes.get(&id).ok_or_else(missing)?;
        let content = made.entry(id).or_insert_with(|| {
            let (list, failed) = changes.get(&id)?;
            let survival = if *failed { Survival::Nothing } else { wish.survival };
            // Each file has its own sequence, so that one more file elsewhere does not change this one.
            let mut rng = Rng::new(mix(wish.seed ^ mix(path_number(&path))));
            Some(file_image(list, size, survival, wish.unit, moments, &mut rng))
        });
        entries.push(Entry::File(path, origin, content.clone()));
    }
    Ok(entries)
}

fn path_number(path: &Path) -> u64 {
    path.1.iter().fold(u64::from(path.0), |number, byte| mix(number ^ u64::from(*byte)))
}

/// Where the newest contents of each file are: under a name of the live tree, else in the graveyard.
fn homes(live: &Tree, ops: &[NameOp]) -> BTreeMap<FileId, Origin> {
    let mut homes = BTreeMap::new();
    for op in ops {
        let root = if op.change == NameChange::Rename { op.b.0 } else { op.a.0 };
        if let Some(victim) = op.victim {
            homes.insert(victim, Origin::Graveyard(root, format!("u{}", op.sequence)));
        }
    }
    for (path, node) in live {
        if let Node::File(id) = node {
            homes.insert(*id, Origin::Live(path.clone()));
        }
    }
    homes
}

fn choose_moments(
    ops: &[NameOp],
    changes: &BTreeMap<FileId, Pending>,
    committed: u64,
    last: u64,
    survival: Survival,
    rng: &mut Rng,
) -> Moments {
    let lists = || changes.values().flat_map(|(list, _)| list.iter().map(|(_, change)| change));
    let oldest = lists().map(|change| change.sequence).min().unwrap_or(last);
    let span = last - oldest.min(last);
    let age = oldest.saturating_sub(1) + rng.below(span + 2);
    // A truncation is a change in the journal, too.
    let cuts = lists().filter(|change| change.kind == ChangeKind::Shrink).map(|change| change.sequence);
    let pending: BTreeSet<u64> =
        ops.iter().map(|op| op.sequence).chain(cuts).filter(|sequence| *sequence > committed).collect();
    let journal = match survival {
        Survival::Nothing => committed,
        Survival::Everything => u64::MAX,
        Survival::ByAge => committed.max(age),
        Survival::Random(_) => {
            let kept = usize::try_from(rng.below(pending.len() as u64 + 1)).unwrap_or(0);
            kept.checked_sub(1).and_then(|place| pending.iter().nth(place).copied()).unwrap_or(committed)
        }
    };
    Moments { journal, age, age_spread: span / 4 }
}
