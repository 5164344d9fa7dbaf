//! The table of files that were written, by device and inode number.
//!
//! Places are found without a lock, and entered and given back under the lock of names. A place that was
//! given back is reused with another generation, so that a process that remembers it from before notices.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::event::FileClass;
use crate::rng::mix;
use crate::state::{Header, Slot, Void};

const NEVER_USED: u64 = 0;
const IN_USE: u64 = 1;
const GIVEN_BACK: u64 = 2;

/// What identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The table, over the slots of the shared state.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    header: &'a Header,
    slots: &'a [Slot],
}

impl<'a> Files<'a> {
    /// A table over these slots, whose number is a power of two.
    #[must_use]
    pub const fn new(header: &'a Header, slots: &'a [Slot]) -> Self {
        Self { header, slots }
    }

    /// The slot at a place.
    #[must_use]
    pub fn slot(&self, place: u64) -> Option<&'a Slot> {
        self.slots.get(usize::try_from(place).ok()?)
    }

    fn probe(&self, id: FileId) -> impl Iterator<Item = (u64, &'a Slot)> {
        let slots = self.slots;
        let mask = slots.len().saturating_sub(1);
        let start = usize::try_from(mix(id.device ^ id.inode.rotate_left(20)) & 0xFFFF_FFFF).unwrap_or(0);
        (0..slots.len()).filter_map(move |step| {
            let place = start.wrapping_add(step) & mask;
            slots.get(place).map(|slot| (place as u64, slot))
        })
    }

    /// The place of a file, if it was written.
    #[must_use]
    pub fn find(&self, id: FileId) -> Option<u64> {
        for (place, slot) in self.probe(id) {
            match slot.state.load(Acquire) {
                NEVER_USED => return None,
                IN_USE if slot_id(slot) == id => return Some(place),
                _ => {}
            }
        }
        None
    }

    /// The place of a file, entered if it is new. The caller has the lock of names. Declares the run void when
    /// the table is full.
    pub fn enter(&self, id: FileId, root: u8, class: FileClass) -> Option<u64> {
        if let Some(place) = self.find(id) {
            return Some(place);
        }
        for (place, slot) in self.probe(id) {
            if slot.state.load(Acquire) != IN_USE {
                for field in [&slot.head, &slot.tail, &slot.failed, &slot.dirty_from, &slot.dirty_to] {
                    field.store(0, Relaxed);
                }
                slot.dirty_blocks.store(0, Relaxed);
                slot.device.store(id.device, Relaxed);
                slot.inode.store(id.inode, Relaxed);
                slot.class.store(class.code(), Relaxed);
                slot.root.store(u64::from(root), Relaxed);
                slot.generation.fetch_add(1, Release);
                slot.state.store(IN_USE, Release);
                return Some(place);
            }
        }
        self.header.declare_void(Void::FilesFull);
        None
    }

    /// Gives back the place of a file that no longer exists. The caller has the lock of names and has dropped
    /// the file's changes.
    pub fn give_back(&self, place: u64) {
        if let Some(slot) = self.slot(place) {
            slot.state.store(GIVEN_BACK, Release);
            slot.generation.fetch_add(1, Release);
        }
    }

    /// The files in use with their slots.
    pub fn in_use(&self) -> impl Iterator<Item = (FileId, &'a Slot)> {
        self.slots.iter().filter(|slot| slot.state.load(Acquire) == IN_USE).map(|slot| (slot_id(slot), slot))
    }
}

fn slot_id(slot: &Slot) -> FileId {
    FileId { device: slot.device.load(Relaxed), inode: slot.inode.load(Relaxed) }
}
