//! Changes of names are logged, and the files that they take away are kept.

use std::ffi::{c_int, CStr};
use std::sync::atomic::Ordering::Relaxed;

use walproof_disk::state::{Op, Void, PATH_MAX};
use walproof_disk::{commit_age_ns, op_id, FileClass, FileId, NameChange, NameEntry};

use crate::paths::{self, Located};
use crate::shared::Shared;
use crate::sys;
use crate::undo::Tracked;

/// The file at a place of the table.
pub fn at_place(shared: Shared, place: u64) -> Option<Tracked> {
    shared.files().slot(place).map(|slot| Tracked { shared, place, slot })
}

/// The file in the table, entered when it is new. Under the lock of names.
pub fn enter(shared: Shared, id: FileId, root: u8, class: FileClass) -> Option<Tracked> {
    at_place(shared, shared.files().enter(id, root, class)?)
}

/// A file that was just created: a place that its inode number had before is another file's. Under the lock
/// of names.
pub fn enter_created(shared: Shared, id: FileId, located: &Located) -> Option<Tracked> {
    leave(shared, id);
    enter(shared, id, located.root, located.class())
}

/// A file that exists no more. Under the lock of names.
fn leave(shared: Shared, id: FileId) {
    if let Some(gone) = shared.files().find(id).and_then(|place| at_place(shared, place)) {
        let held = gone.lock();
        gone.forget_all();
        drop(held);
        shared.files().give_back(gone.place);
    }
}

/// A change of names has become durable: what it took away is needed no more. Under the lock of names.
pub fn forget(shared: Shared, op: &Op) {
    let inode = op.victim.load(Relaxed);
    if inode == 0 {
        return;
    }
    let [a, b, ..] = op.roots.load(Relaxed).to_le_bytes();
    let root = if op.kind.load(Relaxed) == NameChange::Rename as u64 { b } else { a };
    let mut buffer = [0; PATH_MAX + 2];
    let number = op.sequence.load(Relaxed);
    let Some(kept) = paths::in_graveyard(shared, root, b'u', number, &mut buffer) else { return };
    let status = sys::status_at(libc::AT_FDCWD, kept);
    sys::unlink_at(libc::AT_FDCWD, kept, 0);
    if status.is_some_and(|status| status.links == 1) {
        leave(shared, FileId { inode, ..op_id(op) });
    }
}

/// What a change of names is about.
pub struct About<'a> {
    pub change: NameChange,
    pub id: FileId,
    pub victim: u64,
    pub at: &'a Located,
    pub to: Option<&'a Located>,
    pub target: &'a [u8],
}

/// Logs a change that has happened. Under the lock of names.
pub fn log(shared: Shared, sequence: u64, about: &About<'_>) {
    let time_ns = sys::now_ns(libc::CLOCK_MONOTONIC);
    let journal = shared.journal();
    journal.append(&NameEntry {
        change: about.change,
        sequence,
        time_ns,
        id: about.id,
        victim: about.victim,
        a: (about.at.root, about.at.path()),
        parent_a: about.at.parent,
        b: about.to.map_or((about.at.root, about.target), |to| (to.root, to.path())),
        parent_b: about.to.map_or(about.at.parent, |to| to.parent),
    });
    // Old ones have been committed meanwhile.
    let age_ns = commit_age_ns(shared.header.writeback_ns.load(Relaxed));
    let committed = if age_ns == 0 { None } else { journal.older_than(age_ns, time_ns) };
    if let Some(sequence) = committed {
        journal.flush_all(sequence, |op| forget(shared, op));
    }
}

/// Keeps a file that is about to lose a name, under the number of the change. False when that failed. Who has
/// it open may still write to it, so it needs a place in the table, by which it is found without a name. Under
/// the lock of names.
pub fn keep(shared: Shared, folder: c_int, path: &CStr, id: FileId, at: &Located, sequence: u64) -> bool {
    enter(shared, id, at.root, at.class());
    let mut buffer = [0; PATH_MAX + 2];
    let kept = paths::in_graveyard(shared, at.root, b'u', sequence, &mut buffer)
        .is_some_and(|grave| sys::link_at(folder, path, libc::AT_FDCWD, grave, 0) == 0);
    if !kept {
        shared.header.declare_void(Void::NotKept);
    }
    kept
}

/// The change did not happen after all.
pub fn keep_no_more(shared: Shared, root: u8, sequence: u64) {
    let mut buffer = [0; PATH_MAX + 2];
    if let Some(grave) = paths::in_graveyard(shared, root, b'u', sequence, &mut buffer) {
        sys::unlink_at(libc::AT_FDCWD, grave, 0);
    }
}
