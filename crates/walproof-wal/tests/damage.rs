//! Damaged WAL: whatever happens to the bytes, reading gives the records before the damage, and then an end or
//! an error with a place. Never a panic, never a record that was not written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::OnceLock;

use proptest::prelude::*;
use support::{read, Golden, Outcome};
use walproof_wal::{Finish, Lsn, PgVersion, Range, SegmentName, Segments};

const PAGE: usize = 8192;

/// The first pages of a golden segment, and the records in them.
struct Small {
    name: SegmentName,
    bytes: Vec<u8>,
    whole: Outcome,
}

impl Small {
    fn new(version: PgVersion, pages: usize) -> Small {
        let (name, mut bytes) = Golden::load(version).segments.swap_remove(0);
        bytes.truncate(pages * PAGE);
        let whole = read(Segments::from_memory([(name, bytes.clone())]), Range::default());
        assert!(whole.records.len() > 5 * pages, "{} records", whole.records.len());
        Small { name, bytes, whole }
    }

    /// Reads other bytes in the segment's place, which must give the beginning of its records.
    fn check(&self, bytes: Vec<u8>) -> Outcome {
        let outcome = read(Segments::from_memory([(self.name, bytes)]), Range::default());
        let count = outcome.records.len();
        assert_eq!(outcome.records, self.whole.records.get(..count).unwrap_or_default());
        assert!(outcome.message().contains(|c: char| c.is_ascii_digit()), "a place: {}", outcome.message());
        outcome
    }

    /// Records that end at or before that offset.
    fn records_before(&self, offset: usize) -> usize {
        let start = self.name.start(1 << 20).unwrap();
        self.whole.records.iter().filter(|(_, end, _)| *end <= start.advance(offset as u64)).count()
    }
}

/// A file cut at every byte: all records of its whole pages that are complete, then the end.
#[test]
fn cut_at_every_byte() {
    let small = Small::new(PgVersion::V18, 3);
    for cut in 0..small.bytes.len() {
        let outcome = small.check(small.bytes[..cut].to_vec());
        assert_eq!(outcome.records.len(), small.records_before(cut / PAGE * PAGE), "cut at {cut}");
        assert!(outcome.message().contains("read"), "{}", outcome.message());
    }
}

/// Where a file ends is told the same whether reading begins with the segment or with the page that is cut.
#[test]
fn a_cut_page_is_measured_from_any_start() {
    let golden = Golden::load(PgVersion::V18);
    let (name, mut bytes) = golden.segments[1].clone();
    bytes.truncate(7 * PAGE + 3135);
    let start = name.start(1 << 20).unwrap();
    for page in [0, 3, 7] {
        let range = Range { start: Some(start.advance(page * PAGE as u64)), ..Range::default() };
        let outcome = read(Segments::from_memory([(name, bytes.clone())]), range);
        let expected = format!("could not read WAL segment {name}, offset 57344: read 3135 of 8192");
        let said = match outcome.end {
            Err(error) => error.detail().filter(|_| page == 7).unwrap_or(error.to_string()),
            Ok(_) => outcome.message(),
        };
        assert_eq!(said, expected, "from page {page}");
    }
}

/// Bits of some pages flipped one at a time: the records of the pages before it stay, nothing is made up. Every
/// single bit of an old and of the newest format, in the other versions one of each byte.
#[test]
fn flip_every_bit() {
    for version in PgVersion::ALL {
        let small = Small::new(version, 2);
        for offset in 0..small.bytes.len() {
            let before = small.records_before(offset / PAGE * PAGE);
            let is_whole = matches!(version, PgVersion::V14 | PgVersion::V18);
            let bits = if is_whole { 0..8 } else { offset % 8..offset % 8 + 1 };
            for bit in bits {
                let mut bytes = small.bytes.clone();
                bytes[offset] ^= 1 << bit;
                let outcome = small.check(bytes);
                // Damage costs only what comes after it; a flip in padding costs nothing at all.
                assert!(outcome.records.len() >= before, "version {version}, bit {bit} of byte {offset}");
            }
        }
    }
}

/// Pages copied over others and pages exchanged: every pair of pages, and the WAL ends before the first that is
/// not in its place.
#[test]
fn duplicated_and_swapped_pages() {
    const PAGES: usize = 6;
    let small = Small::new(PgVersion::V15, PAGES);
    let page = |number: usize| number * PAGE..(number + 1) * PAGE;
    for (source, two) in
        (0..PAGES).flat_map(|source| (0..PAGES).map(move |two| (source, two))).filter(|(a, b)| a != b)
    {
        let mut copied = small.bytes.clone();
        copied[page(two)].copy_from_slice(&small.bytes[page(source)]);
        let mut swapped = copied.clone();
        swapped[page(source)].copy_from_slice(&small.bytes[page(two)]);
        for (bytes, first) in [(copied, two), (swapped, source.min(two))] {
            let outcome = read(Segments::from_memory([(small.name, bytes)]), Range::default());
            let message = outcome.message();
            assert_eq!(outcome.records, small.whole.records[..small.records_before(first * PAGE)]);
            // What claims to be the segment's first page need not have a long header.
            let (got, expected) = (if first == two { source } else { two }, first);
            if expected == 0 {
                assert!(message.starts_with("invalid info bits"), "{message}");
                assert!(message.ends_with("offset 0"), "{message}");
            } else {
                let start = small.name.start(1 << 20).unwrap();
                let address = start.advance((got * PAGE) as u64);
                let place = start.advance((expected * PAGE) as u64);
                assert!(message.starts_with(&format!("unexpected pageaddr {address} ")), "{message}");
                assert!(message.contains(&format!("LSN {place}, offset {}", expected * PAGE)), "{message}");
            }
        }
    }
}

/// Pages that were never written, or belong elsewhere, end the WAL there.
#[test]
fn foreign_pages() {
    let small = Small::new(PgVersion::V17, 6);
    let other = Golden::load(PgVersion::V16);
    for page in 0..6 {
        let range = page * PAGE..(page + 1) * PAGE;
        let cases = [
            (vec![0; PAGE], "invalid magic number 0000"),
            (vec![0xFF; PAGE], "invalid magic number FFFF"),
            (other.segments[0].1[range.clone()].to_vec(), "invalid magic number D113"),
        ];
        for (foreign, message) in cases {
            let mut bytes = small.bytes.clone();
            bytes[range.clone()].copy_from_slice(&foreign);
            // A first page of 16 is a good beginning, only of another WAL: then the rest is foreign.
            let outcome = read(Segments::from_memory([(small.name, bytes)]), Range::default());
            if page > 0 {
                assert_eq!(outcome.records, small.whole.records[..small.records_before(range.start)]);
                assert!(outcome.message().starts_with(message), "{}", outcome.message());
            } else {
                assert!(outcome.records.len() < 400);
                assert!(
                    outcome.message().starts_with("invalid magic") || outcome.message().contains("pageaddr")
                );
            }
        }
    }
}

/// The whole WAL relabelled as another version's: what can still be read is read, and nothing panics.
#[test]
fn another_version_s_magic() {
    for written in PgVersion::ALL {
        for claimed in PgVersion::ALL {
            let (name, mut bytes) = Golden::load(written).segments.swap_remove(0);
            for page in bytes.chunks_mut(PAGE) {
                page[..2].copy_from_slice(&claimed.magic().to_le_bytes());
            }
            let outcome = read(Segments::from_memory([(name, bytes)]), Range::default());
            assert!(!outcome.records.is_empty());
            // Image flags changed with 15, and 13 has no top-level transactions in its records. In 19 the bit that
            // older servers set on most pages says that a record was lost before.
            let same_format = (written < PgVersion::V15) == (claimed < PgVersion::V15)
                && (written < PgVersion::V19) == (claimed < PgVersion::V19)
                && (claimed > PgVersion::V13 || written == PgVersion::V13);
            let is_whole = matches!(outcome.end, Ok(Finish::LastSegment { .. }));
            assert!(is_whole || !same_format, "{written} read as {claimed}: {}", outcome.message());
        }
    }
}

/// Lengths of gigabytes cost no memory: pages have to be there before they are believed.
#[test]
fn giant_lengths() {
    let small = Small::new(PgVersion::V18, 3);
    for length in [0x3FFF_FFFFu32, 0x4000_0000, 0x7FFF_FFFF, 0xFFFF_FFFF, 8193, 24] {
        for (lsn, ..) in small.whole.records.iter().step_by(7) {
            let mut bytes = small.bytes.clone();
            let at = usize::try_from(lsn.offset_in(1 << 20)).unwrap();
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
            let outcome = small.check(bytes);
            assert_eq!(outcome.records.len(), small.records_before(at));
        }
    }
    let long_header = |field: usize, value: u32| {
        let mut bytes = small.bytes.clone();
        bytes[field..field + 4].copy_from_slice(&value.to_le_bytes());
        read(Segments::from_memory([(small.name, bytes)]), Range::default()).message()
    };
    for size in [0, 1, 8192, 3 << 20, 1 << 31, u32::MAX] {
        let message = format!("invalid WAL segment size in WAL segment {} ({size} bytes)", small.name);
        assert_eq!(long_header(32, size), message);
    }
    let start = small.name.start(u32::try_from(small.bytes.len()).unwrap()).unwrap_or_default();
    assert_eq!(
        long_header(36, 16384),
        format!("incorrect XLOG_BLCKSZ in page header at {start}: expected 8192, got 16384")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any damage anywhere in a whole WAL: bytes overwritten, at a few places at once.
    #[test]
    fn any_damage(
        version in prop::sample::select(PgVersion::ALL.to_vec()),
        places in prop::collection::vec((0usize..4 * 8192, prop::collection::vec(any::<u8>(), 1..40)), 1..5),
    ) {
        static SMALL: OnceLock<Vec<Small>> = OnceLock::new();
        let all = SMALL.get_or_init(|| PgVersion::ALL.map(|version| Small::new(version, 4)).into());
        let small = &all[version.major() as usize - 13];
        let mut bytes = small.bytes.clone();
        for (offset, damage) in &places {
            let end = bytes.len().min(offset + damage.len());
            let length = end - offset;
            bytes[*offset..end].copy_from_slice(&damage[..length]);
        }
        let outcome = read(Segments::from_memory([(small.name, bytes)]), Range::default());
        let first = places.iter().map(|(offset, _)| *offset).min().unwrap();
        if first >= PAGE {
            let before = small.records_before(first / PAGE * PAGE);
            prop_assert!(outcome.records.len() >= before);
            prop_assert_eq!(&outcome.records[..before], &small.whole.records[..before]);
        }
    }

    /// No bytes at all like WAL: an error.
    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..20_000), start in any::<u64>(), timeline in any::<u32>()) {
        let name = SegmentName { timeline: 1, log: 0, segment: 1 };
        for range in [Range::default(), Range { start: Some(Lsn(start)), end: Some(Lsn(u64::MAX)), timeline: Some(timeline), allow_gaps: false }] {
            let outcome = read(Segments::from_memory([(name, bytes.clone())]), range);
            prop_assert!(outcome.end.is_err());
        }
    }
}
