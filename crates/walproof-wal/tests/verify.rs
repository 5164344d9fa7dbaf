//! Files verified apart from each other: what is whole has no fault, and no byte that counts changes unseen.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use proptest::prelude::*;
use support::{read, Golden};
use walproof_wal::verify::{join, verify_file, Cause, FileFacts, Head, Joined, Request};
use walproof_wal::{Lsn, PgVersion, Range, Reader, SegmentName, Segments, Watch};

const PAGE: usize = 8192;
const SIZE: u32 = 1 << 20;

/// Verifies bytes as a file of that name.
fn verify(name: SegmentName, bytes: &[u8], ending: Option<&str>) -> FileFacts {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("walproof-verify-{}-{number}", std::process::id()));
    fs::write(&file, bytes).unwrap();
    let facts = verify_file(&request(file.clone(), name, ending), SIZE, &Watch::default());
    fs::remove_file(file).unwrap();
    facts
}

fn request(path: PathBuf, name: SegmentName, ending: Option<&str>) -> Request {
    Request {
        place: path.into(),
        name,
        is_partial: false,
        ending: ending.map(str::to_owned),
        wants_sha1: true,
    }
}

/// Of every version: as many records as a reader finds, each edge joined, and nothing wrong but the end of the WAL.
#[test]
fn whole_segments_of_every_version() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let plain = read(golden.segments(), Range::default());
        let facts: Vec<FileFacts> =
            golden.segments.iter().map(|(name, bytes)| verify(*name, bytes, None)).collect();
        let (mut records, mut edges) = (0, 0);
        for (place, found) in facts.iter().enumerate() {
            assert_eq!(found.faults, [], "{version}");
            assert_eq!(found.version, Some(version));
            assert_eq!(found.stretches.len(), 1);
            records += found.stretches[0].records;
            let is_last = place + 1 == facts.len();
            assert_eq!(found.end.is_some(), is_last, "{version}: {:?}", found.end);
            assert_eq!(found.is_clean_end, is_last);
            if let (Some(begun), Some(next)) = (&found.tail, facts.get(place + 1)) {
                match &next.head {
                    Head::Rest(rest) => {
                        let joined = join(begun, rest, found.stretches[0].last, version);
                        assert!(matches!(joined, Ok(Joined::Whole(_))), "{version}");
                        records += 1;
                        edges += 1;
                    }
                    head => assert_eq!(*head, Head::Overwrite, "{version}: a crash lost the end of a record"),
                }
            }
        }
        assert_eq!(records as usize, plain.records.len(), "{version}, {edges} edges");
    }
}

/// A segment, and offsets and lengths of what checksums cover in it.
type Covered = (SegmentName, Vec<u8>, Vec<(usize, usize)>);

/// Places of a segment's bytes that some checksum covers: every record that ends in it, header and data.
fn covered() -> &'static Covered {
    static COVERED: OnceLock<Covered> = OnceLock::new();
    COVERED.get_or_init(|| {
        let golden = Golden::load(PgVersion::V16);
        let (name, bytes) = golden.segments[0].clone();
        let mut reader =
            Reader::open(Segments::from_memory([(name, bytes.clone())]), Range::default()).unwrap();
        let start = name.start(SIZE).unwrap();
        let mut places = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            let (mut at, mut left) = ((record.lsn - start) as usize, record.bytes().len());
            while left > 0 {
                if at % PAGE == 0 {
                    at += if at == 0 { 40 } else { 24 };
                }
                let count = left.min(PAGE - at % PAGE);
                places.push((at, count));
                at += count;
                left -= count;
            }
        }
        (name, bytes, places)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A bit of a record changed: something is wrong, in this segment, from the record on; and what is said to be in
    /// order lies outside.
    #[test]
    fn a_changed_record_is_found(place in any::<prop::sample::Index>(), within in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (name, bytes, places) = covered();
        let (at, count) = places[place.index(places.len())];
        let at = at + within.index(count);
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        let facts = verify(*name, &changed, None);
        let faults: Vec<_> = facts.faults.iter().chain(&facts.end).collect();
        prop_assert!(!faults.is_empty(), "byte {}", at);
        let lsn = name.start(SIZE).unwrap().advance(at as u64);
        for stretch in &facts.stretches {
            prop_assert!(lsn < stretch.start || lsn >= stretch.end, "{} in a stretch from {}", lsn, stretch.start);
        }
        // A record whose length was changed may end in a later page, which is where it is found to be wrong;
        // what is in order ends before the record all the same.
        let near = faults.iter().any(|fault| fault.lsn <= lsn && fault.resumes.is_none_or(|to| lsn < to));
        let ended = facts.end.is_some() && facts.stretches.iter().all(|stretch| stretch.end <= lsn);
        prop_assert!(near || ended);
    }

    /// Any damage: never a panic, and stretches in order without overlap.
    #[test]
    fn any_damage(
        places in prop::collection::vec((0..SIZE as usize, any::<u8>()), 1..6),
        zeroed in (0..SIZE as usize, 0..40_000usize),
        cut in prop::option::of(0..SIZE as usize),
    ) {
        let (name, bytes, _) = covered();
        let mut changed = bytes.clone();
        for (at, byte) in places {
            changed[at] = byte;
        }
        let (from, count) = zeroed;
        let to = (from + count).min(changed.len());
        changed[from..to].fill(0);
        if let Some(cut) = cut {
            changed.truncate(cut);
        }
        let facts = verify(*name, &changed, None);
        prop_assert_eq!(facts.faults.iter().any(|fault| fault.cause == Cause::Truncated), cut.is_some());
        let mut last = Lsn(0);
        for stretch in &facts.stretches {
            prop_assert!(stretch.start >= last && stretch.end > stretch.start);
            last = stretch.end;
        }
        prop_assert!(last <= name.start(SIZE).unwrap().advance(u64::from(SIZE)));
    }

    /// Compressed files, cut or changed: never a panic, and a file that is cut is found.
    #[test]
    fn damaged_archives(cut in any::<prop::sample::Index>(), flip in prop::option::of(any::<prop::sample::Index>())) {
        let (name, bytes, _) = covered();
        let mut packed = zstd::bulk::compress(bytes, 1).unwrap();
        match flip {
            Some(index) => {
                let at = index.index(packed.len());
                packed[at] ^= 0x10;
                verify(*name, &packed, Some("zst"));
            }
            None => {
                packed.truncate(cut.index(packed.len()));
                let facts = verify(*name, &packed, Some("zst"));
                prop_assert!(facts.faults.iter().any(|fault| matches!(fault.cause, Cause::Unpack | Cause::Truncated)));
            }
        }
    }
}

/// Several damages in one segment are told apart, and the records between them are in order.
#[test]
fn damages_far_apart() {
    let (name, bytes, _) = covered();
    let start = name.start(SIZE).unwrap();
    let mut changed = bytes.clone();
    changed[10 * PAGE + 8] ^= 1; // the address of a page
    changed[40 * PAGE..43 * PAGE].fill(0);
    changed[50 * PAGE] ^= 0xFF; // the magic number of a page
    let facts = verify(*name, &changed, None);
    assert_eq!(facts.end, None);
    assert_eq!(facts.stretches.len(), 4);
    let places: Vec<(Cause, u64)> =
        facts.faults.iter().map(|fault| (fault.cause, fault.offset / PAGE as u64)).collect();
    assert_eq!(places, [(Cause::Page, 10), (Cause::Page, 40), (Cause::Page, 50)]);
    for (stretch, fault) in facts.stretches[1..].iter().zip(&facts.faults) {
        assert!(stretch.start >= fault.resumes.unwrap() && stretch.records > 100);
    }
    assert_eq!(facts.stretches[0].start, start);
}
