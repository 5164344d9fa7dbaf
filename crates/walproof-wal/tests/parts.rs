//! Parts of WAL, cut anywhere, kept as bytes and joined in any grouping: the totals are those of the whole.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

#[path = "../../walproof-fuzz/src/part.rs"]
mod part_check;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use support::forge::{main_data, Forge, SEGMENT_SIZE};
use support::Golden;
use walproof_wal::{
    join, Error, Finish, Lsn, Part, PgVersion, Range, Reader, Record, SegmentName, Segments, Stats,
};

type Files = Vec<(SegmentName, Vec<u8>)>;

const SIZE: u64 = SEGMENT_SIZE as u64;

/// All that is known about the totals, in the order in which it is told.
fn told((stats, finish): (Stats, Finish)) -> String {
    let relations: Vec<_> = stats
        .relations()
        .iter()
        .map(|row| (row.relation, row.fork, row.totals, row.method, row.distinct_blocks()))
        .collect();
    let finish = match finish {
        Finish::EndOfWal { reason } => reason.to_string(),
        finish => format!("{finish:?}"),
    };
    let places = (stats.identity, stats.timeline, stats.start, stats.end, stats.accounting, &stats.gaps);
    let rest = (stats.images(), stats.transactions(), stats.checkpoints(), stats.rate().untimed());
    let operations: Vec<_> = stats.by_operation().collect();
    let minutes: Vec<_> = stats.rate().minutes().collect();
    let none = stats.relations().none();
    format!("{finish} {places:?} {rest:?} {operations:?} {minutes:?} {none:?} {relations:?}")
}

fn whole(files: &Files, start: Option<Lsn>, end: Option<Lsn>) -> String {
    let range = Range { start, end, ..Range::default() };
    told(Stats::read(Segments::from_memory(files.clone()), range, 1).unwrap())
}

/// One part, read by a machine that has the segments of it alone, and sent from there.
fn part(files: &Files, start: Option<Lsn>, end: Option<Lsn>) -> Result<Part, Error> {
    let kept = files.iter().filter(|(name, _)| {
        let place = name.start(SEGMENT_SIZE).unwrap();
        end.is_none_or(|end| place < end) && start.is_none_or(|start| place.advance(SIZE) > start)
    });
    let range = Range { start, end, ..Range::default() };
    let part = Part::read(Segments::from_memory(kept.cloned()), range, 1)?;
    Ok(sent(&part))
}

fn sent(part: &Part) -> Part {
    let bytes = part.to_bytes();
    let again =
        Part::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}: {:.400}", format!("{part:?}")));
    assert_eq!(again.to_bytes(), bytes);
    again
}

fn parts(files: &Files, start: Option<Lsn>, cuts: &[Lsn], end: Option<Lsn>) -> Vec<Part> {
    let mut bounds = vec![start];
    bounds.extend(cuts.iter().copied().map(Some));
    bounds.push(end);
    let read = |pair: &[Option<Lsn>]| {
        part(files, pair[0], pair[1])
            .unwrap_or_else(|error| panic!("{pair:?}: {error}, {:?}", error.detail()))
    };
    bounds.windows(2).map(read).collect()
}

/// Joins neighbours in an order that the seed chooses.
fn joined(mut parts: Vec<Part>, mut seed: u64) -> Part {
    while parts.len() > 1 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 33) as usize % (parts.len() - 1);
        let next = parts.remove(at + 1);
        let part = parts.remove(at);
        let (bounds, more) = (part.bounds(), next.bounds());
        let both = join(part, next);
        let both = both.unwrap_or_else(|error| panic!("{bounds:?} {more:?}: {error}, {:?}", error.detail()));
        // Not every one, for time's sake.
        parts.insert(at, if seed >> 60 == 0 { sent(&both) } else { both });
    }
    parts.remove(0)
}

/// Three groupings give the same bytes, and the totals of the whole.
fn check(files: &Files, start: Option<Lsn>, cuts: &[Lsn], end: Option<Lsn>) {
    let wanted = whole(files, start, end);
    let pieces = parts(files, start, cuts, end);
    let mut bytes = Vec::new();
    for seed in 0..3 {
        let part = joined(pieces.iter().map(sent).collect(), seed);
        bytes.push(part.to_bytes());
        assert_eq!(told(part.into_stats().unwrap()), wanted, "cut at {cuts:?}");
    }
    assert!(bytes.iter().all(|part| *part == bytes[0]), "cut at {cuts:?}");
}

/// Where each record of its kind that comes first begins and ends, and what lies in it: inside its header, its
/// references to blocks, its image, its data.
fn cuts_of_operations(files: &Files, range: Range) -> BTreeSet<Lsn> {
    let mut cuts = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut reader = Reader::open(Segments::from_memory(files.clone()), range).unwrap();
    let kind = |record: &Record<'_>| {
        let images = record.blocks.iter().filter(|block| block.image.is_some()).count();
        (record.operation().to_string(), record.blocks.len().min(3), images.min(2))
    };
    while let Some(record) = reader.next_record().unwrap() {
        if seen.insert(kind(&record)) {
            let middle = Lsn(record.lsn.0 + (record.end - record.lsn) / 2 / 8 * 8);
            for at in [8, 16, 24, 32, 40, 48, 104] {
                cuts.insert(record.lsn.advance(at).min(record.end));
            }
            cuts.extend([record.lsn, middle, Lsn(record.end.0 - 8), record.end]);
        }
    }
    cuts
}

#[test]
fn golden_wal_cut_at_every_kind_of_record() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let mut cuts = cuts_of_operations(&golden.segments, golden.range());
        assert!(cuts.len() > 700, "version {version}: {}", cuts.len());
        let first_page = golden.start.align_down(8192).0 + 8192;
        for page in (first_page..golden.end.0).step_by(8192).step_by(9) {
            cuts.extend([0, 8, 16, 24, 32, 40, 8184].map(|at| Lsn(page + at)));
        }
        for segment in (golden.start.0..golden.end.0).step_by(SIZE as usize) {
            cuts.insert(Lsn(segment).align_up(SIZE));
        }
        cuts.retain(|cut| *cut > golden.start && *cut < golden.end);
        let all: Vec<Lsn> = cuts.iter().copied().collect();
        check(&golden.segments, Some(golden.start), &all, Some(golden.end));
        check(&golden.segments, None, &all, None);
        for cut in all.iter().step_by(all.len() / 15) {
            check(&golden.segments, Some(golden.start), &[*cut], None);
        }
    }
}

#[test]
fn golden_wal_segment_by_segment() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let edges: Vec<Lsn> =
            golden.segments.iter().skip(1).map(|(name, _)| name.start(SEGMENT_SIZE).unwrap()).collect();
        check(&golden.segments, None, &edges, None);
        // Without a start and an end, the segments at hand are the part.
        let parts = golden.segments.iter().map(|file| {
            sent(&Part::read(Segments::from_memory([file.clone()]), Range::default(), 2).unwrap())
        });
        let wanted = whole(&golden.segments, None, None);
        assert_eq!(told(joined(parts.collect(), 7).into_stats().unwrap()), wanted, "version {version}");
    }
}

/// However many threads, a part is the same.
#[test]
fn threads_change_nothing() {
    let golden = Golden::load(PgVersion::V17);
    let range = Range { start: Some(golden.start), ..Range::default() };
    let bytes = |threads| Part::read(golden.segments(), range, threads).unwrap().to_bytes();
    assert_eq!(bytes(1), bytes(3));
}

/// Every record of every version, moved so that the end of a segment cuts it.
#[test]
fn records_of_every_kind_over_the_edge_of_a_segment() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let mut kinds = BTreeSet::new();
        let mut bodies = Vec::new();
        let mut reader = Reader::open(golden.segments(), golden.range()).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            if kinds.insert(record.operation().to_string()) {
                bodies.push((record.header, record.bytes()[24..].to_vec()));
            }
        }
        assert!(bodies.len() > 60, "version {version}: {}", bodies.len());
        let mut forge = Forge::new(version, 3);
        forge.record(0, 0x20, 0, &main_data(16));
        let mut cuts = Vec::new();
        for (number, (header, body)) in bodies.iter().enumerate() {
            let length = (24 + body.len() as u64).next_multiple_of(8);
            // 8, 16, 24, ... bytes of it stand before the edge.
            let before = (8 + 8 * (number as u64 % 12)).min(length - 8);
            let edge = forge.position().align_up(SIZE);
            forge.fill_to(Lsn(edge.0 - before));
            assert_eq!(forge.record(header.rmgr.0, header.info, header.xid, body).0, edge.0 - before);
            cuts.push(edge);
            if header.rmgr.0 == 0 && header.info & 0xF0 == 0x40 {
                forge.leave_segment();
            }
        }
        forge.record(0, 0x20, 0, &main_data(16));
        check(&forge.segments(), None, &cuts, None);
        let halves: Vec<Lsn> =
            cuts.iter().flat_map(|cut| [*cut, cut.advance(48), cut.advance(SIZE / 2)]).collect();
        let end = forge.position();
        let halves: Vec<Lsn> = halves.into_iter().filter(|cut| *cut < end).collect();
        check(&forge.segments(), None, &halves, None);
    }
}

/// A switch over the edge leaves a segment of which nothing but the rest of the switch is used.
#[test]
fn a_switch_over_the_edge() {
    for version in PgVersion::ALL {
        for before in [8, 16] {
            let mut forge = Forge::new(version, 5);
            forge.record(0, 0x20, 0, &main_data(16));
            forge.fill_to(Lsn(6 * SIZE - before));
            forge.switch();
            forge.record(0, 0x20, 0, &main_data(300));
            let files = forge.segments();
            let edge = 6 * SIZE;
            for cuts in [
                vec![edge],
                vec![edge, edge + SIZE],
                vec![
                    edge - before,
                    edge,
                    edge + 40,
                    edge + 48,
                    edge + 56,
                    edge + 64,
                    edge + 8192,
                    edge + 9000,
                ],
                vec![edge + SIZE / 2, edge + SIZE],
                vec![edge + 8, edge + 56],
            ] {
                let cuts: Vec<Lsn> =
                    cuts.into_iter().map(Lsn).filter(|cut| *cut < forge.position()).collect();
                check(&files, None, &cuts, None);
            }
            // What follows the switch is not at hand: it could be the end of the WAL.
            let short: Files = files[..2].to_vec();
            check(&short, None, &[Lsn(edge)], None);
        }
    }
}

/// What looks like the rest of a switch is the end of another record, and the end of the WAL.
#[test]
fn no_switch_over_the_edge() {
    let mut forge = Forge::new(PgVersion::V18, 5);
    forge.record(0, 0x20, 0, &main_data(16));
    let mut data = vec![0xAA; 48];
    data[32..].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0, 0, 0, 9, 9, 9, 9]);
    let content: Vec<u8> = [&[255u8, 48][..], &data].concat();
    // 74 bytes: 58 stand before the edge, and 16 after it.
    forge.fill_to(Lsn(6 * SIZE - 56));
    forge.record(21, 0, 0, &[&content[..], &[]].concat());
    let files = forge.segments();
    let cut = [Lsn(6 * SIZE)];
    check(&files, None, &cut, None);
    assert!(whole(&files, None, None).contains("invalid record length"));
}

/// A record over many segments; parts that lie within it; one that a crash cut off.
#[test]
fn parts_within_a_record() {
    for version in PgVersion::ALL {
        let mut forge = Forge::new(version, 2);
        forge.record(0, 0x20, 0, &main_data(16));
        forge.record(21, 0, 7, &main_data(3_500_000));
        forge.lost_record(&main_data(9_000_000), 300);
        forge.record(21, 0, 7, &main_data(2_500_000));
        forge.record(0, 0x20, 0, &main_data(16));
        let end = forge.position();
        let files = forge.segments();
        let edges: Vec<Lsn> =
            files.iter().skip(1).map(|(name, _)| name.start(SEGMENT_SIZE).unwrap()).collect();
        check(&files, None, &edges, None);
        let many: Vec<Lsn> =
            (1..60).map(|n| Lsn(2 * SIZE + n * 131_072 + n % 4 * 8)).filter(|cut| *cut < end).collect();
        check(&files, None, &many, None);
        check(&files, None, &many, Some(end));
        // The WAL ends within a record.
        let short: Files = files[..4].to_vec();
        check(&short, None, &edges[..3], None);
        // Where a later segment shows that the WAL went on, that is damage.
        let mut zeroed = short.clone();
        zeroed[3].1[40_960..].fill(0);
        let range = Range::default();
        let error = Stats::read(Segments::from_memory(zeroed.clone()), range, 1).unwrap_err();
        let mut pieces = parts(&zeroed, None, &edges[..3], None);
        let last = pieces.pop().unwrap();
        let said = join(joined(pieces, 1), last).unwrap_err();
        assert_eq!(said.to_string(), error.to_string());
        // Cut within the segment in which the record begins, it is the end.
        let mut begun: Files = files[..1].to_vec();
        begun[0].1[811_008 + 8192..].fill(0);
        check(&begun, None, &[Lsn(2 * SIZE + 8192), Lsn(2 * SIZE + 800_000)], None);
    }
}

fn refusal(part: Part, next: Part) -> String {
    let error = join(part, next).unwrap_err();
    format!("{error}; {}", error.detail().unwrap_or_default())
}

#[test]
fn what_does_not_follow_is_refused() {
    let golden = Golden::load(PgVersion::V18);
    let third = (golden.end - golden.start) / 3 / 8 * 8;
    let cuts = [golden.start.advance(third), golden.start.advance(2 * third)];
    let make = || parts(&golden.segments, Some(golden.start), &cuts, None);
    let [a, b, c] = <[Part; 3]>::try_from(make()).unwrap();
    let missing = refusal(a, c);
    assert!(missing.contains("ends elsewhere"), "{missing}");
    let expected = format!("expected a part that begins at {}, got one at {}", cuts[0], cuts[1]);
    assert!(missing.ends_with(&expected), "{missing}");
    let swapped = refusal(b, make().remove(0));
    assert!(swapped.contains(&format!("from {} on", golden.start)), "{swapped}");
    let twice = refusal(make().remove(0), make().remove(0));
    assert!(twice.contains("ends elsewhere"), "{twice}");
    let after = refusal(make().remove(2), make().remove(0));
    assert!(after.contains("the WAL ends before it"), "{after}");

    // The same place in another cluster, and in another version.
    for (at, value, words) in [(24, 42u8, "another system"), (0, 0x16, "another version")] {
        let mut foreign = golden.segments.clone();
        for (_, bytes) in &mut foreign {
            let step = if at == 0 { 8192 } else { bytes.len() };
            bytes.chunks_mut(step).for_each(|page| page[at] = value);
        }
        if let Ok(other) = part(&foreign, Some(cuts[0]), Some(cuts[1])) {
            let said = refusal(make().remove(0), other);
            assert!(said.contains(words), "{said}");
        } else {
            assert_eq!(at, 0, "version 17 may not know what 18 wrote");
        }
    }
}

/// A record over the edge that is changed on one side, and a part from another history of the cluster.
#[test]
fn damage_over_the_edge_is_refused() {
    let mut forge = Forge::new(PgVersion::V16, 5);
    forge.record(0, 0x20, 0, &main_data(16));
    forge.fill_to(Lsn(6 * SIZE - 400));
    forge.record(21, 0, 0, &main_data(5_000));
    forge.record(0, 0x20, 0, &main_data(16));
    let files = forge.segments();
    let edge = Lsn(6 * SIZE);
    let first = || part(&files, None, Some(edge)).unwrap();
    check(&files, None, &[edge], None);
    for at in [45, 100, 4_000] {
        let mut damaged = files.clone();
        damaged[1].1[at] ^= 1;
        let said = refusal(first(), part(&damaged, Some(edge), None).unwrap());
        let place = Lsn(6 * SIZE - 400);
        assert!(
            said.starts_with(&format!("incorrect resource manager data checksum in record at {place}")),
            "{said}"
        );
    }
    let other = |length: usize, before: u64| {
        let mut forge = Forge::new(PgVersion::V16, 5);
        forge.record(0, 0x20, 0, &main_data(16));
        forge.fill_to(Lsn(6 * SIZE - before));
        forge.record(21, 0, 0, &main_data(length));
        forge.record(0, 0x20, 0, &main_data(16));
        part(&forge.segments(), Some(edge), None).unwrap()
    };
    let longer = refusal(first(), other(6_000, 400));
    assert!(longer.starts_with("invalid contrecord length"), "{longer}");
    let elsewhere = refusal(first(), other(4_984, 384));
    assert!(elsewhere.contains("checksum") || elsewhere.contains("first record"), "{elsewhere}");
    let mut forge = Forge::new(PgVersion::V16, 5);
    forge.fill_to(Lsn(6 * SIZE + 40));
    forge.record(0, 0x20, 0, &main_data(16));
    let none = refusal(first(), part(&forge.segments(), Some(edge), None).unwrap());
    assert!(none.starts_with("there is no contrecord flag"), "{none}");
}

#[test]
fn bounds_that_no_record_can_have() {
    let golden = Golden::load(PgVersion::V18);
    let odd = Range { end: Some(Lsn(golden.end.0 - 3)), ..golden.range() };
    let error = Part::read(golden.segments(), odd, 1).unwrap_err();
    assert!(error.to_string().starts_with("a part of WAL cannot begin or end at"), "{error}");
    let empty = Range { end: Some(golden.start), ..golden.range() };
    assert!(matches!(Part::read(golden.segments(), empty, 1), Err(Error::EmptyRange { .. })));
    let beyond = Range { end: Some(golden.end.advance(4 * SIZE)), ..golden.range() };
    assert!(Part::read(golden.segments(), beyond, 1).is_err());
}

/// Any changed byte, any length: refused, by the checksum.
#[test]
fn damaged_files_are_refused() {
    let golden = Golden::load(PgVersion::V18);
    let bytes = part(&golden.segments, None, Some(golden.end)).unwrap().to_bytes();
    for at in (0..bytes.len()).step_by(bytes.len() / 400 + 1) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Part::from_bytes(&damaged).is_err(), "byte {at}");
        assert!(Part::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
    }
    let mut newer = bytes.clone();
    newer[7] = 9;
    let said = Part::from_bytes(&newer).unwrap_err().to_string();
    assert!(said.contains("another version of walproof"), "{said}");
    assert!(Part::from_bytes(b"").is_err());
}

/// Writes the corpus: parts of each version. Not a test: `cargo test --test parts -- --ignored write_the_corpus`.
#[test]
#[ignore = "it writes files of the repository"]
fn write_the_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../walproof-fuzz/fuzz/corpus/part");
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let cuts = [golden.start.advance(8_200 / 8 * 8), golden.start.advance(50_000)];
        let ranges = [(None, Some(cuts[0])), (Some(cuts[0]), Some(cuts[1])), (Some(cuts[1]), None)];
        for (number, (from, to)) in ranges.into_iter().enumerate() {
            let bytes = part(&golden.segments, from, to).unwrap().to_bytes();
            fs::write(folder.join(format!("{version}-{number}")), &bytes[..bytes.len() - 4]).unwrap();
        }
    }
}

#[test]
fn the_corpus_holds_parts_of_each_version() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../walproof-fuzz/fuzz/corpus/part");
    let inputs: Vec<Vec<u8>> =
        fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    let whole = |input: &Vec<u8>| [input.as_slice(), &crc32c::crc32c(input).to_le_bytes()].concat();
    let accepted = inputs.iter().filter(|input| Part::from_bytes(&whole(input)).is_ok()).count();
    assert!(accepted >= 3 * PgVersion::ALL.len(), "{accepted}");
}

/// One record of a forged recording.
#[derive(Clone, Debug)]
enum Act {
    Message(usize),
    /// Transaction, block and relation of an insert, and whether it has an image.
    Insert(u32, u32, u8, bool),
    Commit(u32, i64),
    Switch,
    Lost(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..40_000usize).prop_map(Act::Message),
        12 => (1..9u32, any::<u32>(), 0..5u8, any::<bool>())
            .prop_map(|(xid, block, relation, image)| Act::Insert(xid, block % 200_000, relation, image)),
        6 => (1..9u32, 0..600_000_000i64).prop_map(|(xid, time)| Act::Commit(xid, time)),
        1 => Just(Act::Switch),
        1 => (20_000..60_000usize).prop_map(Act::Lost),
    ]
}

fn perform(forge: &mut Forge, version: PgVersion, acts: &[Act]) {
    for act in acts {
        match act {
            Act::Message(length) => {
                forge.record(21, 0, 3, &main_data(*length));
            }
            Act::Insert(xid, block, relation, has_image) => {
                let mut content = vec![0, if *has_image { 0x30 } else { 0x20 }, 5, 0];
                if *has_image {
                    // 4000 bytes, the hole from 100 on, to be applied.
                    content.extend([0xA0, 0x0F, 100, 0, if version < PgVersion::V15 { 0x05 } else { 0x03 }]);
                }
                content.extend(1663u32.to_le_bytes());
                content.extend(5u32.to_le_bytes());
                content.extend((16_384 + u32::from(*relation)).to_le_bytes());
                content.extend(block.to_le_bytes());
                content.extend([255, 3]);
                if *has_image {
                    content.extend(vec![0xCD; 4000]);
                }
                content.extend([1, 2, 3, 4, 5, 6, 7, 8]);
                forge.record(10 + relation % 2, 0, *xid, &content);
            }
            Act::Commit(xid, time) => {
                let content: Vec<u8> = [&[255u8, 8][..], &time.to_le_bytes()].concat();
                forge.record(1, 0, *xid, &content);
            }
            Act::Switch => {
                forge.switch();
            }
            Act::Lost(length) => {
                forge.lost_record(&main_data(*length), 1 + length / 30_000);
            }
        }
    }
    forge.record(0, 0x20, 0, &main_data(16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_recording_cut_anywhere(
        version in 0..PgVersion::ALL.len(),
        acts in prop::collection::vec(act(), 1..120),
        begin in 0..2u64,
        places in prop::collection::vec(0.0..1.0f64, 1..24),
        has_end in any::<bool>(),
    ) {
        let mut forge = Forge::new(PgVersion::ALL[version], 3 + begin);
        perform(&mut forge, PgVersion::ALL[version], &acts);
        let start = Lsn((3 + begin) * SIZE);
        let end = forge.position();
        let cuts: BTreeSet<Lsn> = places
            .iter()
            .map(|place| Lsn(start.0 + ((end - start) as f64 * place) as u64 / 8 * 8))
            .filter(|cut| *cut > start && *cut < end)
            .collect();
        let cuts: Vec<Lsn> = cuts.into_iter().collect();
        check(&forge.segments(), None, &cuts, has_end.then_some(end));
    }

    #[test]
    fn the_parser_survives_damage(
        version in 0..PgVersion::ALL.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
    ) {
        let golden = Golden::load(PgVersion::ALL[version]);
        let bytes = part(&golden.segments, None, Some(golden.start.advance(80_000))).unwrap().to_bytes();
        let mut body = bytes[..bytes.len() - 4].to_vec();
        for (at, value) in &damage {
            let at = at.index(body.len());
            body[at] = *value;
        }
        part_check::part(&body);
        body.truncate(length.index(body.len()));
        part_check::part(&body);
    }

    #[test]
    fn the_parser_survives_anything(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        part_check::part(&[&b"walpart\x01"[..], &bytes].concat());
    }
}
