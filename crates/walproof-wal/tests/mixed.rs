//! Segments that do not belong together, or not where they are: another order, another name, another version,
//! another cluster, another segment size. What fits is read; where it ceases to fit, there is a place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use support::forge::{main_data, Forge, SEGMENT_SIZE};
use support::{read, Golden, Outcome};
use walproof_wal::{Finish, Lsn, PgVersion, Range, SegmentName, Segments};

const MB: u32 = 1 << 20;

/// From the golden start on, with no end: what is at hand decides.
fn read_from(golden: &Golden, segments: Vec<(SegmentName, Vec<u8>)>) -> Outcome {
    let range = Range { start: Some(golden.start), ..Range::default() };
    read(Segments::from_memory(segments), range)
}

fn first_lsn(segment: &(SegmentName, Vec<u8>)) -> Lsn {
    segment.0.start(MB).unwrap()
}

/// How many of the records end in the segments before that place.
fn count_before(outcome: &Outcome, place: Lsn) -> usize {
    outcome.records.iter().filter(|(_, end, _)| *end <= place).count()
}

/// The order in which segments are given does not matter.
#[test]
fn any_order() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = read_from(&golden, golden.segments.clone());
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let segments = order.map(|index: usize| golden.segments[index].clone());
            let outcome = read_from(&golden, segments.into());
            assert_eq!(outcome.records, whole.records, "version {version}, order {order:?}");
            assert_eq!(outcome.message(), whole.message());
        }
    }
}

/// The contents of a segment under another's name are refused by their addresses.
#[test]
fn renamed_segments() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = read_from(&golden, golden.segments.clone());
        let [first, second, third] = <[_; 3]>::try_from(golden.segments.clone()).unwrap();
        let refusal = |name: SegmentName, got: Lsn, at: Lsn| {
            format!("unexpected pageaddr {got} in WAL segment {name}, LSN {at}, offset 0")
        };

        // The second and the third exchanged: the first is read as far as its records end in it.
        let exchanged = vec![first.clone(), (second.0, third.1.clone()), (third.0, second.1.clone())];
        let outcome = read_from(&golden, exchanged);
        let place = first_lsn(&second);
        assert_eq!(outcome.records, whole.records[..count_before(&whole, place)], "version {version}");
        assert_eq!(outcome.message(), refusal(second.0, first_lsn(&third), place));

        // The one to begin with renamed: nothing is read.
        let outcome = read_from(&golden, vec![(first.0, second.1.clone()), second.clone()]);
        assert_eq!(outcome.records, []);
        assert_eq!(outcome.message(), refusal(first.0, place, first_lsn(&first)));

        // A copy under a name far ahead is WAL of nowhere: it does not prove that there is more.
        let far = SegmentName { segment: third.0.segment + 1, ..third.0 };
        let outcome = read_from(&golden, vec![first.clone(), second.clone(), third.clone(), (far, first.1)]);
        assert_eq!(outcome.records, whole.records);
        assert!(matches!(outcome.end, Ok(Finish::EndOfWal { .. })), "{:?}", outcome.end);

        // Another timeline's name for the same contents: a timeline begins with the end of the one before.
        let on_two = SegmentName { timeline: 2, ..third.0 };
        let outcome =
            read_from(&golden, vec![(first.0, golden.segments[0].1.clone()), second, (on_two, third.1)]);
        assert_eq!(outcome.records, whole.records);
    }
}

/// A segment of every other version in the second's place ends the WAL there, by its magic number.
#[test]
fn another_version_s_segment() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = read_from(&golden, golden.segments.clone());
        for other in PgVersion::ALL.into_iter().filter(|other| *other != version) {
            let mut segments = golden.segments.clone();
            segments[1].1 = Golden::load(other).segments[1].1.clone();
            segments.truncate(2);
            let (name, place) = (segments[1].0, first_lsn(&segments[1]));
            let outcome = read_from(&golden, segments);
            assert_eq!(outcome.records, whole.records[..count_before(&whole, place)]);
            let magic = other.magic();
            let message =
                format!("invalid magic number {magic:04X} in WAL segment {name}, LSN {place}, offset 0");
            assert_eq!(outcome.message(), message, "{version}, then {other}");
        }
    }
}

/// A segment of every other cluster is named by both system identifiers, even where its addresses would fit.
#[test]
fn another_cluster_s_segment() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let whole = read_from(&golden, golden.segments.clone());
        let mut segments = golden.segments.clone();
        let place = first_lsn(&segments[1]);
        let identifier = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        let expected = identifier(&segments[1].1);
        segments[1].1[24..32].copy_from_slice(&42u64.to_le_bytes());
        let outcome = read_from(&golden, segments);
        let message = "WAL file is from different database system: system identifier is 42";
        assert_eq!(outcome.message(), format!("{message} at {place}, expected {expected}"));
        // A record that goes on in that segment is not read either.
        assert_eq!(outcome.records, whole.records[..count_before(&whole, place)], "version {version}");
    }
}

/// Segments of 1 MB and of 16 MB in one folder: the first decides, and the other is named with both sizes.
#[test]
fn mixed_segment_sizes() {
    for (size, other_size) in [(SEGMENT_SIZE, 16 * MB), (16 * MB, SEGMENT_SIZE)] {
        let mut here = Forge::with_segment_size(PgVersion::V18, 5, size);
        while here.position() < Lsn(6 * u64::from(size)) {
            here.record(21, 0, 0, &main_data(50_000));
        }
        let mut segments = here.segments();
        segments.truncate(1);
        let alone = read(Segments::from_memory(segments.clone()), Range::default());
        assert!(alone.records.len() > 10);
        assert!(matches!(alone.end, Ok(Finish::LastSegment { .. })), "{:?}", alone.end);

        let mut there = Forge::with_segment_size(PgVersion::V18, 6, other_size);
        there.record(21, 0, 0, &main_data(100));
        segments.extend(there.segments());
        let outcome = read(Segments::from_memory(segments.clone()), Range::default());
        assert_eq!(outcome.records, alone.records);
        let place = Lsn(6 * u64::from(size));
        assert_eq!(
            outcome.message(),
            format!(
                "WAL file is from different database system: incorrect segment size in page header at {place}: \
                 expected {size}, got {other_size}"
            )
        );

        // A start in the other's numbering is a place that the first one's size has no segment for.
        let start = Some(Lsn(6 * u64::from(other_size)));
        let outcome = read(Segments::from_memory(segments), Range { start, ..Range::default() });
        assert_eq!(outcome.records, []);
        assert!(outcome.message().starts_with("could not find WAL segment"), "{}", outcome.message());
    }
}

/// Files shorter and longer than their segment: what is there is read, what is too much is not looked at.
#[test]
fn files_of_other_lengths() {
    let golden = Golden::load(PgVersion::V18);
    let whole = read_from(&golden, golden.segments.clone());
    let mut longer = golden.segments.clone();
    for (_, bytes) in &mut longer {
        bytes.extend([0xEE; 100_000]);
    }
    assert_eq!(read_from(&golden, longer).records, whole.records);

    let mut shorter = golden.segments.clone();
    let name = shorter[1].0;
    shorter[1].1.truncate(500_000);
    let outcome = read_from(&golden, shorter);
    let place = first_lsn(&golden.segments[1]).advance(500_000 / 8192 * 8192);
    assert_eq!(outcome.records, whole.records[..count_before(&whole, place)]);
    let (offset, got) = (500_000 / 8192 * 8192, 500_000 % 8192);
    assert_eq!(
        outcome.message(),
        format!("could not read WAL segment {name}, offset {offset}: read {got} of 8192")
    );

    let mut empty = golden.segments.clone();
    empty[1].1.clear();
    let outcome = read_from(&golden, empty);
    assert_eq!(outcome.message(), format!("could not read WAL segment {name}, offset 0: read 0 of 8192"));
}
