//! The simulation against a plain model of a server: every target apart, page LSNs in its own WAL.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code)]
#[path = "../../walproof-wal/tests/support/forge.rs"]
mod forge;

use std::collections::HashMap;

use forge::Forge;
use proptest::prelude::*;
use walproof_wal::{Lsn, PgVersion, Range, Segments};
use walproof_whatif::{simulate, Request, Target};

const SEGMENT: u64 = 1 << 20;
const SEGMENT_USABLE: u64 = 128 * 8168 - 16;
const IMAGE: u16 = 1000;
const DATA: u16 = 60;
const CHECKPOINT: u64 = 208;
const HEAP: u8 = 10;
const LOCK: u8 = 0x60;

/// A server that writes one HEAP/LOCK record for each touch.
struct Server {
    usable: u64,
    redo: u64,
    segments: u64,
    page_lsn: HashMap<u32, u64>,
    images: u64,
    checkpoints: u64,
    checkpoint_bytes: u64,
}

impl Server {
    fn new(start: u64, segments: u64, checkpoint_bytes: u64) -> Server {
        let page_lsn = HashMap::new();
        Server { usable: start, redo: start, segments, page_lsn, images: 0, checkpoints: 0, checkpoint_bytes }
    }

    /// Whether the record has an image.
    fn touch(&mut self, block: u32) -> bool {
        let has_image = self.page_lsn.get(&block).copied().unwrap_or(0) <= self.redo;
        self.images += u64::from(has_image);
        self.usable += (24 + content(block, has_image).len()).next_multiple_of(8) as u64;
        self.page_lsn.insert(block, self.usable);
        if self.usable >= (self.redo / SEGMENT_USABLE + self.segments) * SEGMENT_USABLE {
            self.redo = self.usable;
            self.checkpoints += 1;
            self.usable += self.checkpoint_bytes;
        }
        has_image
    }
}

/// A record's content: one block reference, with an image of 1000 bytes or 60 bytes of data; 8 bytes of main data.
fn content(block: u32, has_image: bool) -> Vec<u8> {
    let mut bytes = vec![0, if has_image { 0x10 } else { 0x20 }];
    bytes.extend(if has_image { 0 } else { DATA }.to_le_bytes());
    if has_image {
        bytes.extend(IMAGE.to_le_bytes());
        bytes.extend(500u16.to_le_bytes());
        bytes.push(0x01 | 0x02);
    }
    for word in [1663u32, 5, 16384, block] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([255, 8]);
    bytes.extend(vec![0x5A; usize::from(if has_image { IMAGE } else { DATA })]);
    bytes.extend([1; 8]);
    bytes
}

fn target(max_wal_size_mb: u64) -> Target {
    Target { max_wal_size_mb: Some(max_wal_size_mb), checkpoint_timeout_s: None, ..Target::default() }
}

fn segments_of(target: &Target) -> u64 {
    target.checkpoint_segments(SEGMENT as u32).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_target_writes_what_its_own_server_would(
        touches in prop::collection::vec((0u32..40, 0u32..3000, 0u8..8), 2500..6000),
        source_size in 2u64..12,
        sizes in prop::collection::vec(2u64..12, 1..5),
    ) {
        // Some pages are hot.
        let blocks: Vec<u32> =
            touches.iter().map(|&(hot, cold, die)| if die < 5 { hot } else { cold }).collect();
        let mut forge = Forge::new(PgVersion::V15, 1);
        let start = forge.position();
        let mut source = Server::new(SEGMENT_USABLE, segments_of(&target(source_size)), 0);
        for block in &blocks {
            let has_image = source.touch(*block);
            forge.record(HEAP, LOCK, 7, &content(*block, has_image));
        }
        let targets: Vec<Target> = sizes.iter().map(|size| target(*size)).collect();
        let run = |targets: &[Target]| {
            let segments = Segments::from_memory(forge.segments());
            simulate(segments, Range { start: Some(start), ..Range::default() }, &Request::new(targets)).unwrap()
        };
        let found = run(&targets);
        prop_assert_eq!(found.recorded.records, blocks.len() as u64);
        prop_assert_eq!(found.recorded.images, source.images);
        for (target, outcome) in targets.iter().zip(&found.outcomes) {
            let mut server = Server::new(SEGMENT_USABLE, segments_of(target), CHECKPOINT);
            for block in &blocks {
                server.touch(*block);
            }
            prop_assert_eq!(outcome.images, server.images);
            prop_assert_eq!(outcome.by_size, server.checkpoints);
            prop_assert_eq!(Lsn(found.start.0 + outcome.wal_bytes), end_lsn(server.usable));
        }
        // One of them alone says the same.
        prop_assert_eq!(run(&targets[..1]).outcomes[0], found.outcomes[0]);
    }
}

/// `XLogBytePosToEndRecPtr`.
fn end_lsn(usable: u64) -> Lsn {
    let (segment, mut left) = (usable / SEGMENT_USABLE, usable % SEGMENT_USABLE);
    if left < 8152 {
        return Lsn(segment * SEGMENT + if left == 0 { 0 } else { left + 40 });
    }
    left -= 8152;
    let (pages, rest) = (left / 8168, left % 8168);
    Lsn(segment * SEGMENT + 8192 + pages * 8192 + if rest == 0 { 0 } else { rest + 24 })
}

#[test]
fn a_sample_is_off_by_as_much_as_it_says() {
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as u32
    };
    let blocks: Vec<u32> =
        (0..30_000).map(|_| if next(2) == 0 { next(400) } else { 1000 + next(9000) }).collect();
    let mut forge = Forge::new(PgVersion::V15, 1);
    let start = forge.position();
    for block in &blocks {
        forge.record(HEAP, LOCK, 7, &content(*block, true));
    }
    let targets = [2, 4, 8, 64].map(target);
    let run = |most_pages| {
        let segments = Segments::from_memory(forge.segments());
        let range = Range { start: Some(start), ..Range::default() };
        simulate(segments, range, &Request { most_pages, ..Request::new(&targets) }).unwrap()
    };
    let every = run(None);
    assert!(every.recorded.pages > 7000);
    for most_pages in [4000, 1000, 250] {
        let sample = run(Some(most_pages));
        assert!(sample.recorded.held_pages <= most_pages && sample.recorded.held_pages * 4 > most_pages);
        for (sampled, all) in sample.outcomes.iter().zip(&every.outcomes) {
            let error = sampled.wal_bytes as f64 - all.wal_bytes as f64;
            let told = sampled.sample_error_bytes;
            // An error in WAL moves checkpoints, which adds to it.
            assert!(told > 0.0 && error.abs() < 4.0 * told, "{most_pages}: {error} {told} {sampled:?}");
            assert!(told < 0.2 * all.wal_bytes as f64, "{most_pages}: {told}");
        }
        // Fewer pages say less.
        assert!(
            sample.outcomes[3].sample_error_bytes > run(Some(2 * most_pages)).outcomes[3].sample_error_bytes
        );
    }
}

#[test]
fn a_promotion_is_a_checkpoint_for_everybody() {
    let mut old = Forge::new(PgVersion::V15, 1);
    let mut new = Forge::new(PgVersion::V15, 1);
    let start = old.position();
    for forge in [&mut old, &mut new] {
        for block in 0..700 {
            forge.record(HEAP, LOCK, 7, &content(block, true));
        }
    }
    new.set_timeline(2);
    // XLOG/END_OF_RECOVERY, and the same pages again.
    new.record(
        0,
        0x90,
        0,
        &[255, 24, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    for block in 0..700 {
        new.record(HEAP, LOCK, 7, &content(block, true));
    }
    let segments = Segments::from_memory(old.segments().into_iter().chain(new.segments()));
    let never = Target { max_wal_size_mb: None, checkpoint_timeout_s: None, ..Target::default() };
    let range = Range { start: Some(start), ..Range::default() };
    let found = simulate(segments, range, &Request::new(&[never])).unwrap();
    assert_eq!((found.first_timeline, found.timeline), (1, 2));
    assert_eq!((found.outcomes[0].images, found.outcomes[0].cycles.count), (1400, 1));
}

/// Part of a record: block `id`, of the table or of its visibility map, with an image of that length or that much data.
fn reference(id: u8, fork: u8, image: Option<u16>, data: u16) -> (Vec<u8>, Vec<u8>) {
    let has_data = if data > 0 { 0x20 } else { 0 };
    let mut head = vec![id, fork | has_data | if image.is_some() { 0x10 } else { 0 }];
    head.extend(data.to_le_bytes());
    if let Some(length) = image {
        head.extend(length.to_le_bytes());
        head.extend(500u16.to_le_bytes());
        head.push(0x01 | 0x02);
    }
    for word in [1663u32, 5, 16384, 0] {
        head.extend(word.to_le_bytes());
    }
    (head, vec![0x5A; usize::from(image.unwrap_or(0) + data)])
}

/// Sizes of pages are followed through records of 18.6 and 19, which refer to the visibility map as well: an update
/// on one page stays one.
#[test]
fn blocks_of_the_visibility_map_do_not_change_what_a_record_does_to_its_page() {
    const UPDATE: u8 = 0x20;
    const MAP: u8 = 2;
    for version in [PgVersion::V18, PgVersion::V19] {
        let mut forge = Forge::new(version, 1);
        let mut add = |info: u8, blocks: &[(Vec<u8>, Vec<u8>)]| {
            let mut bytes: Vec<u8> = blocks.iter().flat_map(|(head, _)| head.clone()).collect();
            bytes.extend([255, 8]);
            blocks.iter().for_each(|(_, data)| bytes.extend(data));
            bytes.extend([1; 8]);
            forge.record(HEAP, info, 7, &bytes);
        };
        // Of 1000 bytes; then a row of 100 with its line pointer, twice, and the page is found with an image again.
        add(0x00, &[reference(0, 0, Some(1000), 0)]);
        add(0x00, &[reference(0, 0, None, 82), reference(1, MAP, None, 0)]);
        add(UPDATE, &[reference(0, 0, None, 10), reference(2, MAP, None, 0)]);
        add(UPDATE, &[reference(0, 0, Some(1300), 0)]);
        let segments = Segments::from_memory(forge.segments());
        let start = Some(Lsn(SEGMENT + 40));
        let found =
            simulate(segments, Range { start, ..Range::default() }, &Request::new(&[target(64)])).unwrap();
        let agreement = found.recorded.agreement;
        assert_eq!(agreement.found_bytes, 1300);
        assert_eq!(agreement.expected_bytes, 1000 + 108 + 108 + 108, "{version}");
    }
}

const BTREE: u8 = 11;
const INSERT_LEAF: u8 = 0x00;
const INSERT_UPPER: u8 = 0x10;
const VACUUM: u8 = 0xC0;
const XLOG: u8 = 0;
const FPI_FOR_HINT: u8 = 0xA0;

#[test]
fn keys_in_order_touch_the_last_leaf_and_its_parent() {
    let mut forge = Forge::new(PgVersion::V15, 1);
    let start = forge.position();
    for block in 0..500 {
        forge.record(BTREE, INSERT_LEAF, 7, &content(block * 7 % 500, true));
        forge.record(HEAP, LOCK, 7, &content(1000 + block, true));
    }
    forge.record(BTREE, INSERT_UPPER, 7, &content(900, true));
    // Hint bits touch pages for everybody: the next change of that page has no image.
    forge.record(XLOG, FPI_FOR_HINT, 7, &content(2000, true));
    forge.record(HEAP, LOCK, 7, &content(2000, false));
    // What else changes an index stays where it is.
    forge.record(BTREE, VACUUM, 7, &content(3, true));
    let random = Target { max_wal_size_mb: None, checkpoint_timeout_s: None, ..Target::default() };
    let ordered = Target { ordered_keys: true, ..random };
    let images = |relations: &[u32]| {
        let segments = Segments::from_memory(forge.segments());
        let range = Range { start: Some(start), ..Range::default() };
        let targets = [random, ordered];
        let request = Request { ordered: relations, ..Request::new(&targets) };
        let found = simulate(segments, range, &request).unwrap();
        found.outcomes.iter().map(|outcome| outcome.images).collect::<Vec<u64>>()
    };
    // One of the leaves, one of the parent, one of VACUUM, one of the hint, and those of other records.
    assert_eq!(images(&[16384]), [1002, 504]);
    assert_eq!(images(&[16385]), [1002, 1002]);
}

#[test]
fn a_cycle_that_began_before_the_first_commit_is_a_whole_one() {
    let mut forge = Forge::new(PgVersion::V15, 1);
    let start = forge.position();
    let commit = |forge: &mut Forge, second: i64| {
        let mut content = vec![255, 8];
        content.extend((second * 1_000_000).to_le_bytes());
        forge.record(1, 0, 7, &content);
    };
    for block in 0..3000 {
        forge.record(HEAP, LOCK, 7, &content(block, true));
    }
    // The part of the cycle that the recording began in has ended by size: 60 s begin here.
    commit(&mut forge, 1000);
    commit(&mut forge, 1050);
    let by_time = |max_wal_size_mb: u64| {
        let phased = Target {
            max_wal_size_mb: Some(max_wal_size_mb),
            checkpoint_timeout_s: Some(60),
            phase: 0.9,
            ..Target::default()
        };
        let segments = Segments::from_memory(forge.segments());
        let found =
            simulate(segments, Range { start: Some(start), ..Range::default() }, &Request::new(&[phased]))
                .unwrap();
        (found.outcomes[0].by_size > 0, found.outcomes[0].by_time)
    };
    assert_eq!(by_time(2), (true, 0));
    assert_eq!(by_time(1000), (false, 1));
}
