//! One test for each rule of the model that random histories of one file do not show: names, moments, what the
//! kernel does by itself, and what makes a run void. `bench/mutants/rules.py` switches each rule off.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use walproof_disk::state::{Action, Config, Geometry, Slot, Void, BLOCK, PATH_MAX};
use walproof_disk::{
    commit_age_ns, file_image, image, is_written_back, Change, ChangeKind, Device, Entry, Error, Event,
    FileClass, FileId, FileImage, Moments, NameChange, NameEntry, Node, Origin, Patch, Path, Rng, Snapshot,
    Source, Survival, Tree, Unit, Wish,
};

const ROOT: FileId = folder(1);
const NO_FILE: u64 = 0;

const fn file(inode: u64) -> FileId {
    FileId { device: 1, inode }
}

const fn folder(number: u64) -> FileId {
    file(1000 + number)
}

fn path(text: &str) -> Path {
    (0, text.as_bytes().to_vec())
}

fn disk(strict: bool, writeback_ns: u64) -> Snapshot {
    Snapshot::new(&Config {
        roots: vec![],
        tracking: true,
        real_flush: false,
        strict,
        writeback_ns,
        device: Device::default(),
        seed: 0,
        swallowed: Vec::new(),
        geometry: Geometry { slots: 4, records: 64, ops: 8 },
    })
    .unwrap()
}

/// Logs a change of names; its number.
fn log(disk: &Snapshot, change: NameChange, id: FileId, at: (&str, FileId), time_ns: u64) -> u64 {
    log_two(disk, change, id, NO_FILE, at, at, time_ns)
}

fn log_two(
    disk: &Snapshot,
    change: NameChange,
    id: FileId,
    victim: u64,
    from: (&str, FileId),
    to: (&str, FileId),
    time_ns: u64,
) -> u64 {
    let sequence = disk.header.next_sequence();
    disk.journal().append(&NameEntry {
        change,
        sequence,
        time_ns,
        id,
        victim,
        a: (0, from.0.as_bytes()),
        parent_a: from.1,
        b: (0, to.0.as_bytes()),
        parent_b: to.1,
    });
    sequence
}

fn slot(disk: &Snapshot, id: FileId) -> &Slot {
    let place = disk.files().enter(id, 0, FileClass::Other).unwrap();
    disk.files().slot(place).unwrap()
}

fn change(kind: ChangeKind, a: u64, b: u64, sequence: u64) -> Change {
    Change { kind, a, b, sequence, time_ns: 0 }
}

/// Logs that a block of a file was overwritten at that time.
fn overwrite(disk: &Snapshot, id: FileId, time_ns: u64) {
    let sequence = disk.header.next_sequence();
    let change = Change { time_ns, ..change(ChangeKind::Data, 0, BLOCK, sequence) };
    assert!(disk.undo().append(slot(disk, id), change));
}

fn wish(survival: Survival, seed: u64) -> Wish {
    Wish { seed, survival, unit: Unit::Sector4096 }
}

fn entries(disk: &Snapshot, live: &[(&str, Node)], wish: &Wish) -> Result<BTreeMap<Path, Entry>, Error> {
    let live: Tree = live.iter().map(|(name, node)| (path(name), node.clone())).collect();
    let sizes = (0..100).map(|inode| (file(inode), 2 * BLOCK)).collect();
    let named = |entry: Entry| match &entry {
        Entry::Folder(at) | Entry::Symlink(at, _) | Entry::File(at, ..) => (at.clone(), entry),
    };
    Ok(image(disk, live, &sizes, wish)?.into_iter().map(named).collect())
}

fn names(disk: &Snapshot, live: &[(&str, Node)], wish: &Wish) -> Vec<String> {
    let found = entries(disk, live, wish).unwrap();
    found.into_keys().map(|(_, name)| String::from_utf8(name).unwrap()).collect()
}

fn content(entry: &Entry) -> Option<&FileImage> {
    match entry {
        Entry::File(_, _, content) => content.as_ref(),
        _ => panic!("no file: {entry:?}"),
    }
}

/// An image of one file with these changes; the n-th has record n.
fn of_file(changes: &[Change], live_size: u64, survival: Survival, journal: u64, seed: u64) -> FileImage {
    let changes: Vec<(u64, Change)> = (0..).zip(changes.iter().copied()).collect();
    let moments = Moments { journal, age: 3, age_spread: 0 };
    file_image(&changes, live_size, survival, Unit::Sector4096, moments, &mut Rng::new(seed))
}

const fn saved(at: u64, length: u64, record: u64) -> Patch {
    Patch { at, length, source: Source::Saved { record, valid: BLOCK } }
}

// What the kernel does by itself.

#[test]
fn data_is_written_back_at_an_age_and_names_are_committed_at_a_sixth_of_it() {
    assert!(is_written_back(100, 131, 30));
    assert!(!is_written_back(100, 130, 30));
    assert!(!is_written_back(0, u64::MAX, 0));
    assert_eq!(commit_age_ns(30), 5);
}

#[test]
fn data_that_the_kernel_wrote_back_is_on_the_disk() {
    let disk = disk(false, 30);
    overwrite(&disk, file(1), 100);
    overwrite(&disk, file(2), 105);
    disk.header.cut_power(131);
    let live = [("old", Node::File(file(1))), ("new", Node::File(file(2)))];
    let found = entries(&disk, &live, &wish(Survival::Nothing, 1)).unwrap();
    assert_eq!(content(&found[&path("old")]), None);
    assert_eq!(content(&found[&path("new")]).unwrap().patches, [saved(0, BLOCK, 1)]);
}

#[test]
fn names_that_the_kernel_committed_are_on_the_disk() {
    let disk = disk(false, 60);
    log(&disk, NameChange::Create, file(1), ("old", ROOT), 100);
    log(&disk, NameChange::Create, file(2), ("new", ROOT), 105);
    disk.header.cut_power(111);
    let live = [("old", Node::File(file(1))), ("new", Node::File(file(2)))];
    assert_eq!(names(&disk, &live, &wish(Survival::Nothing, 1)), ["old"]);
}

#[test]
fn names_older_than_an_age_are_found() {
    let disk = disk(false, 0);
    let first = log(&disk, NameChange::Create, file(1), ("a", ROOT), 100);
    let second = log(&disk, NameChange::Create, file(2), ("b", ROOT), 105);
    assert_eq!(disk.journal().older_than(10, 110), None);
    assert_eq!(disk.journal().older_than(10, 111), Some(first));
    assert_eq!(disk.journal().older_than(10, 116), Some(second));
}

// When names become durable.

#[test]
fn a_flush_of_a_new_file_commits_the_journal() {
    let disk = disk(false, 0);
    let made = log(&disk, NameChange::Create, file(1), ("a", ROOT), 0);
    assert!(disk.journal().concerns(file(1), made));
    assert!(!disk.journal().concerns(file(1), made - 1));
    assert!(!disk.journal().concerns(file(2), made));
    disk.journal().commit(made, |_| {});
    assert_eq!(disk.journal().pending().count(), 0);
}

#[test]
fn in_strict_posix_a_flush_of_the_file_alone_makes_no_name_durable() {
    let disk = disk(true, 0);
    let made = log(&disk, NameChange::Create, file(1), ("a", ROOT), 0);
    disk.journal().commit(made, |_| {});
    assert_eq!(disk.journal().pending().count(), 1);
    assert_eq!(names(&disk, &[("a", Node::File(file(1)))], &wish(Survival::Nothing, 1)), [""; 0]);
}

#[test]
fn in_strict_posix_a_flush_of_a_folder_covers_that_folder_alone() {
    let disk = disk(true, 0);
    let made = log(&disk, NameChange::Create, file(1), ("d/a", folder(2)), 0);
    disk.journal().flush_folder(ROOT, made, |_| {});
    assert_eq!(disk.journal().pending().count(), 1);
    disk.journal().flush_folder(folder(2), made, |_| {});
    assert_eq!(disk.journal().pending().count(), 0);
}

#[test]
fn in_strict_posix_both_folders_of_a_rename_have_to_be_flushed() {
    let disk = disk(true, 0);
    let [from, to] = [("d/a", folder(2)), ("e/a", folder(3))];
    let moved = log_two(&disk, NameChange::Rename, file(1), NO_FILE, from, to, 0);
    disk.journal().flush_folder(folder(3), moved, |_| {});
    assert_eq!(disk.journal().pending().count(), 1);
    disk.journal().flush_folder(folder(2), moved, |_| {});
    assert_eq!(disk.journal().pending().count(), 0);
}

// Which names exist.

#[test]
fn in_strict_posix_what_is_built_on_a_lost_name_is_lost() {
    let disk = disk(true, 0);
    log(&disk, NameChange::MakeFolder, folder(2), ("d", ROOT), 0);
    log(&disk, NameChange::Create, file(1), ("d/a", folder(2)), 0);
    let live = [("d", Node::Folder), ("d/a", Node::File(file(1)))];
    let seen: BTreeSet<Vec<String>> =
        (0..100).map(|seed| names(&disk, &live, &wish(Survival::Random(0.5), seed))).collect();
    let possible: [Vec<String>; 3] = [vec![], vec!["d".into()], vec!["d".into(), "d/a".into()]];
    assert_eq!(seen, possible.into());
}

#[test]
fn in_strict_posix_what_a_durable_name_is_built_on_survived() {
    let disk = disk(true, 0);
    log(&disk, NameChange::MakeFolder, folder(2), ("d", ROOT), 0);
    let made = log(&disk, NameChange::Create, file(1), ("d/a", folder(2)), 0);
    disk.journal().flush_folder(folder(2), made, |_| {});
    let live = [("d", Node::Folder), ("d/a", Node::File(file(1)))];
    assert_eq!(names(&disk, &live, &wish(Survival::Nothing, 1)), ["d", "d/a"]);
}

#[test]
fn a_file_that_a_lost_rename_replaced_is_back_and_found_in_the_graveyard() {
    let disk = disk(false, 0);
    let [from, to] = [("a", ROOT), ("b", ROOT)];
    let moved = log_two(&disk, NameChange::Rename, file(1), 2, from, to, 0);
    let found = entries(&disk, &[("b", Node::File(file(1)))], &wish(Survival::Nothing, 1)).unwrap();
    let kept = Origin::Graveyard(0, format!("u{moved}"));
    let expected =
        [Entry::File(path("a"), Origin::Live(path("b")), None), Entry::File(path("b"), kept, None)];
    assert_eq!(found.into_values().collect::<Vec<_>>(), expected);
}

#[test]
fn a_folder_moves_with_what_is_in_it() {
    let disk = disk(false, 0);
    log_two(&disk, NameChange::Rename, folder(2), NO_FILE, ("old", ROOT), ("new", ROOT), 0);
    let live = [("new", Node::Folder), ("new/a", Node::File(file(1))), ("newer", Node::File(file(2)))];
    assert_eq!(names(&disk, &live, &wish(Survival::Nothing, 1)), ["newer", "old", "old/a"]);
    assert_eq!(names(&disk, &live, &wish(Survival::Everything, 1)), ["new", "new/a", "newer"]);
}

#[test]
fn of_the_names_that_are_not_durable_a_prefix_survives() {
    let disk = disk(false, 0);
    let made = ["a", "b", "c", "d"];
    let files = [file(1), file(2), file(3), file(4)];
    for (name, id) in made.iter().zip(files) {
        log(&disk, NameChange::Create, id, (name, ROOT), 0);
    }
    let live: Vec<(&str, Node)> = made.into_iter().zip(files.map(Node::File)).collect();
    let seen: BTreeSet<Vec<String>> =
        (0..200).map(|seed| names(&disk, &live, &wish(Survival::Random(0.5), seed))).collect();
    let prefixes = (0..=4).map(|kept| made.iter().take(kept).map(ToString::to_string).collect());
    assert_eq!(seen, prefixes.collect());
}

#[test]
fn a_truncation_is_a_change_in_the_journal() {
    let disk = disk(false, 0);
    let sequence = disk.header.next_sequence();
    assert!(disk
        .undo()
        .append(slot(&disk, file(1)), change(ChangeKind::Shrink, 3 * BLOCK, 2 * BLOCK, sequence)));
    let seen: BTreeSet<u64> = (0..100)
        .map(|seed| {
            let found =
                entries(&disk, &[("a", Node::File(file(1)))], &wish(Survival::Random(0.5), seed)).unwrap();
            content(&found[&path("a")]).unwrap().size
        })
        .collect();
    assert_eq!(seen, [2 * BLOCK, 3 * BLOCK].into());
}

// What one file holds.

#[test]
fn by_age_what_is_older_than_the_moment_survives() {
    let changes = [change(ChangeKind::Data, 0, BLOCK, 2), change(ChangeKind::Data, BLOCK, BLOCK, 5)];
    let found = of_file(&changes, 2 * BLOCK, Survival::ByAge, 0, 1);
    assert_eq!(found.patches, [saved(BLOCK, BLOCK, 1)]);
}

/// A block is written, cut off and written again.
const CUT_AND_WRITTEN: [Change; 4] = [
    Change { kind: ChangeKind::Data, a: BLOCK, b: BLOCK, sequence: 1, time_ns: 0 },
    Change { kind: ChangeKind::Data, a: BLOCK, b: BLOCK, sequence: 2, time_ns: 0 },
    Change { kind: ChangeKind::Shrink, a: 2 * BLOCK, b: BLOCK, sequence: 2, time_ns: 0 },
    Change { kind: ChangeKind::Grow, a: BLOCK, b: 2 * BLOCK, sequence: 3, time_ns: 0 },
];

#[test]
fn what_a_durable_truncation_cut_off_does_not_come_back() {
    for seed in 0..50 {
        let found = of_file(&CUT_AND_WRITTEN, 2 * BLOCK, Survival::Random(0.0), 2, seed);
        assert!(found.patches.iter().all(|patch| patch.source == Source::Zeros), "{found:?}");
    }
}

#[test]
fn what_a_lost_truncation_cut_off_is_there() {
    let found = of_file(&CUT_AND_WRITTEN, 2 * BLOCK, Survival::Random(1.0), 0, 1);
    assert_eq!(found, FileImage { size: 2 * BLOCK, patches: vec![saved(BLOCK, BLOCK, 1)] });
}

#[test]
fn a_unit_older_than_a_truncation_in_it_ends_in_zeros() {
    let changes = [
        change(ChangeKind::Data, 0, BLOCK, 1),
        change(ChangeKind::Shrink, BLOCK, 1000, 2),
        change(ChangeKind::Grow, 1000, 3000, 3),
        change(ChangeKind::Shrink, 3000, 2000, 4),
    ];
    let found = of_file(&changes, 2000, Survival::Nothing, u64::MAX, 1);
    let zeros = Patch { at: 1000, length: 1000, source: Source::Zeros };
    assert_eq!(found, FileImage { size: 2000, patches: vec![saved(0, 1000, 0), zeros] });
}

#[test]
fn after_a_lost_truncation_the_size_did_not_grow() {
    let changes =
        [change(ChangeKind::Shrink, 2 * BLOCK, BLOCK, 1), change(ChangeKind::Grow, BLOCK, 5 * BLOCK, 2)];
    assert_eq!(of_file(&changes, 5 * BLOCK, Survival::Random(1.0), 0, 1).size, 2 * BLOCK);
}

#[test]
fn growth_that_did_not_happen_is_none() {
    let changes = [change(ChangeKind::Grow, BLOCK, u64::MAX, 1)];
    assert_eq!(of_file(&changes, BLOCK, Survival::Everything, 0, 1).size, BLOCK);
}

#[test]
fn a_file_that_grew_may_have_any_size_in_between() {
    let changes = [change(ChangeKind::Grow, 0, 3 * 8192, 1)];
    let seen: BTreeSet<u64> =
        (0..100).map(|seed| of_file(&changes, 3 * 8192, Survival::Random(0.0), 0, seed).size).collect();
    assert_eq!(seen, [0, 8192, 2 * 8192, 3 * 8192].into());
}

#[test]
fn what_was_cut_off_and_kept_aside_comes_back() {
    let changes = [change(ChangeKind::Side, 0, 2 * BLOCK, 1), change(ChangeKind::Shrink, 2 * BLOCK, 0, 1)];
    let found = of_file(&changes, 0, Survival::Random(1.0), 0, 1);
    let source = Source::Side { sequence: 1, start: 0, valid: 2 * BLOCK };
    let patches = vec![Patch { at: 0, length: BLOCK, source }, Patch { at: BLOCK, length: BLOCK, source }];
    assert_eq!(found, FileImage { size: 2 * BLOCK, patches });
}

#[test]
fn units_of_512_bytes_tear_a_block() {
    let changes = [(0, change(ChangeKind::Data, 0, BLOCK, 1))];
    let moments = Moments { journal: 0, age: 0, age_spread: 0 };
    let seen: BTreeSet<u64> = (0..20)
        .flat_map(|seed| {
            let mut rng = Rng::new(seed);
            file_image(&changes, BLOCK, Survival::Random(0.5), Unit::Sector512, moments, &mut rng).patches
        })
        .map(|patch| (patch.at, patch.length))
        .map(|(at, length)| if length == 512 { at } else { BLOCK })
        .collect();
    assert_eq!(seen, (0..8).map(|unit| unit * 512).collect());
}

#[test]
fn what_a_failed_flush_should_have_written_is_lost() {
    let disk = disk(false, 0);
    overwrite(&disk, file(1), 0);
    let live = [("a", Node::File(file(1)))];
    let patches = || {
        let found = entries(&disk, &live, &wish(Survival::Everything, 1)).unwrap();
        content(&found[&path("a")]).unwrap().patches.clone()
    };
    assert_eq!(patches(), []);
    slot(&disk, file(1)).failed.store(1, Relaxed);
    assert_eq!(patches(), [saved(0, BLOCK, 0)]);
}

#[test]
fn a_synchronous_write_that_changes_the_size_covers_the_file() {
    let disk = disk(false, 0);
    let slot = slot(&disk, file(1));
    for change in [
        change(ChangeKind::Data, 0, BLOCK, 1),
        change(ChangeKind::Data, 5 * BLOCK, BLOCK, 2),
        change(ChangeKind::Grow, 6 * BLOCK, 7 * BLOCK, 3),
    ] {
        assert!(disk.undo().append(slot, change));
    }
    disk.undo().drop_blocks(slot, 6, 6, 3, |_| {});
    assert_eq!(disk.undo().changes(slot).count(), 0);
}

// What makes a run void.

#[test]
fn there_is_no_image_of_a_void_run() {
    let disk = disk(false, 0);
    disk.header.declare_void(Void::UnseenWrite);
    let found = entries(&disk, &[], &wish(Survival::Everything, 1));
    assert!(matches!(found, Err(Error::Void { why: Void::UnseenWrite })), "{found:?}");
}

#[test]
fn a_full_list_of_names_makes_the_run_void() {
    let disk = disk(false, 0);
    for inode in 0..8 {
        log(&disk, NameChange::Create, file(inode), ("a", ROOT), 0);
    }
    assert_eq!(disk.void(), []);
    log(&disk, NameChange::Create, file(8), ("a", ROOT), 0);
    assert_eq!(disk.void(), [Void::NamesFull]);
}

#[test]
fn a_path_that_is_too_long_makes_the_run_void() {
    let disk = disk(false, 0);
    log(&disk, NameChange::Create, file(1), (&"x".repeat(PATH_MAX), ROOT), 0);
    assert_eq!(disk.void(), []);
    log(&disk, NameChange::Create, file(1), (&"x".repeat(PATH_MAX + 1), ROOT), 0);
    assert_eq!(disk.void(), [Void::PathTooLong]);
}

#[test]
fn a_full_table_of_files_makes_the_run_void() {
    let disk = disk(false, 0);
    for inode in 1..=4 {
        assert!(disk.files().enter(file(inode), 0, FileClass::Other).is_some());
    }
    assert_eq!(disk.void(), []);
    assert_eq!(disk.files().enter(file(5), 0, FileClass::Other), None);
    assert_eq!(disk.void(), [Void::FilesFull]);
}

#[test]
fn a_place_that_is_used_again_is_another_files() {
    let disk = disk(false, 0);
    let generation = |place: u64| disk.files().slot(place).unwrap().generation.load(Relaxed);
    let place = disk.files().enter(file(1), 0, FileClass::Other).unwrap();
    let first = generation(place);
    assert_eq!(first, 1, "0 is of a place that nobody has used");
    disk.files().give_back(place);
    let given_back = generation(place);
    assert_eq!(disk.files().find(file(1)), None);
    assert_eq!(disk.files().enter(file(1), 0, FileClass::Other), Some(place));
    assert_eq!(BTreeSet::from([first, given_back, generation(place)]).len(), 3);
}

// Moments.

#[test]
fn the_cut_is_at_the_nth_event_and_happens_once() {
    let disk = disk(false, 0);
    let [awaited, other] = [Event::ALL[0], Event::ALL[1]];
    disk.header.trigger_event.store(awaited.index() as u64 + 1, Relaxed);
    disk.header.trigger_left.store(2, Relaxed);
    let seen = [awaited, other, awaited, awaited].map(|event| disk.header.count(event));
    assert_eq!(seen, [None, None, Some(Action::Cut), None]);
}

#[test]
fn a_flush_can_be_made_to_fail() {
    let disk = disk(false, 0);
    disk.header.trigger_event.store(Event::ALL[0].index() as u64 + 1, Relaxed);
    disk.header.trigger_left.store(1, Relaxed);
    disk.header.trigger_action.store(1, Relaxed);
    assert_eq!(disk.header.count(Event::ALL[0]), Some(Action::FailFlush));
}

#[test]
fn the_first_cut_is_the_cut() {
    let disk = disk(false, 0);
    assert!(disk.header.cut_power(5));
    assert!(!disk.header.cut_power(9));
    assert_eq!(disk.header.cut_monotonic_ns.load(Relaxed), 5);
}
