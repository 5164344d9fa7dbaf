//! One file of the model against a plain list of all its states: random writes, truncations and flushes are
//! logged as the preload library logs them, and every image is compared with what the file held when.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use walproof_disk::state::{Config, Geometry, Slot, BLOCK};
use walproof_disk::{
    file_image, Change, ChangeKind, Device, FileClass, FileId, FileImage, Moments, Rng, Snapshot, Source,
    Survival, Unit,
};

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: usize,
        length: usize,
        byte: u8,
    },
    Truncate {
        to: usize,
    },
    Flush,
    /// Begins a flush that ends after the next step.
    SlowFlush,
    SyncedWrite {
        block: usize,
        byte: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..40_000, 1usize..20_000, 1u8..)
            .prop_map(|(at, length, byte)| Step::Write { at, length, byte }),
        2 => (0usize..50_000).prop_map(|to| Step::Truncate { to }),
        1 => Just(Step::Flush),
        1 => Just(Step::SlowFlush),
        1 => (0usize..10, 1u8..).prop_map(|(block, byte)| Step::SyncedWrite { block, byte }),
    ]
}

/// The disk: live bytes, the shared log, and beside it every state since the last flush.
struct Disk {
    shared: Snapshot,
    place: u64,
    live: Vec<u8>,
    /// Contents of records' blocks.
    blocks: Vec<Vec<u8>>,
    states: Vec<(u64, Vec<u8>)>,
}

impl Disk {
    fn new(content: Vec<u8>) -> Self {
        let geometry = Geometry { slots: 4, records: 4096, ops: 1 };
        let shared = Snapshot::new(&Config {
            roots: vec![],
            tracking: true,
            real_flush: false,
            strict: false,
            writeback_ns: 0,
            device: Device::default(),
            seed: 0,
            swallowed: Vec::new(),
            geometry,
        })
        .unwrap();
        let place = shared.files().enter(FileId { device: 1, inode: 2 }, 0, FileClass::Other).unwrap();
        Self { shared, place, live: content.clone(), blocks: vec![vec![]; 4096], states: vec![(0, content)] }
    }

    fn slot(&self) -> &Slot {
        self.shared.files().slot(self.place).unwrap()
    }

    fn save_blocks(&mut self, from: usize, to: usize, sequence: u64) {
        let block = BLOCK as usize;
        for number in from / block..to.div_ceil(block) {
            let a = number * block;
            if a >= self.live.len() {
                break;
            }
            let end = self.live.len().min(a + block);
            let index = self.shared.undo().allocate().unwrap();
            self.blocks[index as usize] = self.live[a..end].to_vec();
            let change =
                Change { kind: ChangeKind::Data, a: a as u64, b: (end - a) as u64, sequence, time_ns: 0 };
            self.shared.undo().link(self.slot(), index, change);
        }
    }

    fn log_size(&self, kind: ChangeKind, to: usize, sequence: u64) {
        let change = Change { kind, a: self.live.len() as u64, b: to as u64, sequence, time_ns: 0 };
        assert!(self.shared.undo().append(self.slot(), change));
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> u64 {
        let sequence = self.shared.header.next_sequence();
        let end = at + bytes.len();
        self.save_blocks(at, end, sequence);
        if end > self.live.len() {
            self.log_size(ChangeKind::Grow, end, sequence);
            self.live.resize(end, 0);
        }
        self.live[at..end].copy_from_slice(bytes);
        self.states.push((sequence, self.live.clone()));
        sequence
    }

    fn truncate(&mut self, to: usize) {
        let sequence = self.shared.header.next_sequence();
        if to < self.live.len() {
            self.save_blocks(to, self.live.len(), sequence);
            self.log_size(ChangeKind::Shrink, to, sequence);
        } else {
            self.log_size(ChangeKind::Grow, to, sequence);
        }
        self.live.resize(to, 0);
        self.states.push((sequence, self.live.clone()));
    }

    fn now(&self) -> u64 {
        self.shared.header.sequence.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn flushed(&mut self, sequence: u64) {
        self.shared.undo().drop_through(self.slot(), sequence, |_| {});
        // A flush may end after a later one that covers more.
        let last = self.states.iter().rposition(|(number, _)| *number <= sequence);
        self.states.drain(..last.unwrap_or(0));
    }

    fn image(&self, survival: Survival, unit: Unit, journal: u64, seed: u64) -> FileImage {
        let changes: Vec<_> = self.shared.undo().changes(self.slot()).collect();
        let moments = Moments { journal, age: seed % (self.now() + 1), age_spread: 2 };
        file_image(&changes, self.live.len() as u64, survival, unit, moments, &mut Rng::new(seed))
    }

    fn apply(&self, image: &FileImage) -> Vec<u8> {
        let mut bytes = self.live.clone();
        bytes.resize(usize::try_from(image.size).unwrap(), 0);
        for patch in &image.patches {
            for offset in patch.at..patch.at + patch.length {
                bytes[offset as usize] = match patch.source {
                    Source::Zeros => 0,
                    Source::Saved { record, valid } => {
                        let inside = offset % BLOCK;
                        if inside < valid {
                            self.blocks[record as usize][inside as usize]
                        } else {
                            0
                        }
                    }
                    Source::Side { .. } => panic!("no side files here"),
                };
            }
        }
        bytes
    }
}

fn run(steps: &[Step], disk: &mut Disk) {
    let mut slow = None;
    for step in steps {
        let begun = slow.take();
        match step {
            Step::Write { at, length, byte } => drop(disk.write(*at, &vec![*byte; *length])),
            Step::Truncate { to } => disk.truncate(*to),
            Step::Flush => disk.flushed(disk.now()),
            Step::SlowFlush => slow = Some(disk.now()),
            Step::SyncedWrite { block, byte } => {
                let at = block * BLOCK as usize;
                let sequence = disk.write(at, &[*byte; BLOCK as usize]);
                disk.shared.undo().drop_blocks(disk.slot(), *block as u64, *block as u64, sequence, |_| {});
                // The plain list: this block is durable in all states from before, too, when only data
                // differs; when sizes do, the whole file is.
                let size = disk.live.len();
                if disk.states.iter().any(|(_, state)| state.len() != size) {
                    disk.flushed(sequence);
                } else {
                    for (_, state) in &mut disk.states {
                        state[at..at + BLOCK as usize].fill(*byte);
                    }
                }
            }
        }
        if let Some(sequence) = begun {
            disk.flushed(sequence);
        }
    }
}

const UNITS: [Unit; 3] = [Unit::Sector512, Unit::Sector4096, Unit::Page8192];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn everything_is_the_live_file(start in 0usize..30_000, steps in prop::collection::vec(step(), 0..25)) {
        let mut disk = Disk::new(vec![0xEE; start]);
        run(&steps, &mut disk);
        for unit in UNITS {
            let image = disk.image(Survival::Everything, unit, u64::MAX, 1);
            prop_assert_eq!(&disk.apply(&image), &disk.live);
        }
    }

    #[test]
    fn nothing_is_the_last_flushed_state(start in 0usize..30_000, steps in prop::collection::vec(step(), 0..25)) {
        let mut disk = Disk::new(vec![0xEE; start]);
        run(&steps, &mut disk);
        for unit in UNITS {
            let image = disk.image(Survival::Nothing, unit, 0, 1);
            prop_assert_eq!(&disk.apply(&image), &disk.states[0].1);
        }
    }

    /// Each unit holds what it held in one of the states since the flush, or zeros where a state had nothing;
    /// the size lies between the smallest and the largest.
    #[test]
    fn any_image_is_made_of_states(
        start in 0usize..30_000,
        steps in prop::collection::vec(step(), 0..25),
        seed in any::<u64>(),
        by_age in any::<bool>(),
    ) {
        let mut disk = Disk::new(vec![0xEE; start]);
        run(&steps, &mut disk);
        let survival = if by_age { Survival::ByAge } else { Survival::Random(0.5) };
        for unit in UNITS {
            let journal = Rng::new(seed).below(disk.now() + 1);
            let image = disk.image(survival, unit, journal, seed);
            let bytes = disk.apply(&image);
            let sizes = || disk.states.iter().map(|(_, state)| state.len());
            prop_assert!((sizes().min().unwrap()..=sizes().max().unwrap()).contains(&bytes.len()));
            let length = usize::try_from(unit.bytes()).unwrap();
            for (number, found) in bytes.chunks(length).enumerate() {
                let at = number * length;
                let held = disk.states.iter().any(|(_, state)| {
                    (0..found.len()).all(|i| state.get(at + i).copied().unwrap_or(0) == found[i])
                });
                prop_assert!(held, "unit at {at} of {unit:?} was never like that");
            }
        }
    }

    /// Storage that never tears a page of 8 kB writes whole pages: no image holds a torn one.
    #[test]
    fn atomic_pages_are_never_torn(writes in prop::collection::vec((0usize..4, 1u8..), 1..20), seed in any::<u64>()) {
        let mut disk = Disk::new(vec![0; 4 * 8192]);
        for (page, byte) in &writes {
            disk.write(page * 8192, &[*byte; 8192]);
        }
        let image = disk.image(Survival::Random(0.5), Unit::Page8192, 0, seed);
        for page in disk.apply(&image).chunks(8192) {
            prop_assert!(page.iter().all(|byte| *byte == page[0]));
        }
    }

    /// Records that a flush frees are used again: no leak.
    #[test]
    fn flushed_records_come_back(rounds in 1usize..200) {
        let mut disk = Disk::new(vec![0; 65_536]);
        for round in 0..rounds {
            disk.write(0, &[round as u8; 65_536]);
            disk.write(8192, &[round as u8; 16]);
            disk.flushed(disk.now());
        }
        let used = disk.shared.header.records_used_max.load(std::sync::atomic::Ordering::Relaxed);
        prop_assert_eq!(used, 17);
        prop_assert!(disk.shared.void().is_empty());
    }
}

#[test]
fn a_block_written_often_may_hold_a_version_in_between() {
    let mut disk = Disk::new(vec![0; 4096]);
    for byte in 1..=4 {
        disk.write(0, &[byte; 4096]);
    }
    let seen: std::collections::BTreeSet<u8> = (0..200)
        .map(|seed| disk.apply(&disk.image(Survival::Random(0.3), Unit::Sector4096, 0, seed))[0])
        .collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_full_log_makes_the_run_void() {
    let mut disk = Disk::new(vec![0; 4096]);
    for _ in 0..4096 {
        disk.write(0, &[1; 8]);
    }
    assert!(disk.shared.void().is_empty());
    assert_eq!(disk.shared.undo().allocate(), None);
    assert_eq!(disk.shared.void(), [walproof_disk::state::Void::UndoFull]);
}
