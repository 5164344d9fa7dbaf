//! WAL to test on: golden segments that real servers wrote, and forged ones.
#![allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod forge;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use walproof_wal::{Error, Finish, Lsn, PgVersion, Range, Reader, SegmentName, Segments, Stats};

/// The golden WAL of one version (tests/golden/make_wal.py says what is in it).
pub struct Golden {
    pub segments: Vec<(SegmentName, Vec<u8>)>,
    pub start: Lsn,
    pub end: Lsn,
    /// `facts.txt`: name -> value.
    pub facts: BTreeMap<String, String>,
    /// `stats.txt`: operation -> records, record bytes, image bytes; None without a pg_waldump of the version.
    pub stats: Option<BTreeMap<String, (u64, u64, u64)>>,
}

impl Golden {
    pub fn load(version: PgVersion) -> Golden {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/golden/wal")
            .join(version.to_string());
        let mut segments = Vec::new();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "xz") {
                let name = SegmentName::parse(path.file_stem().unwrap().to_str().unwrap()).unwrap();
                let mut bytes = Vec::new();
                liblzma::read::XzDecoder::new(fs::File::open(&path).unwrap())
                    .read_to_end(&mut bytes)
                    .unwrap();
                segments.push((name, bytes));
            }
        }
        segments.sort();
        let facts: BTreeMap<String, String> = fs::read_to_string(folder.join("facts.txt"))
            .unwrap()
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Golden {
            segments,
            start: facts["start"].parse().unwrap(),
            end: facts["end"].parse().unwrap(),
            facts,
            stats: fs::read_to_string(folder.join("stats.txt")).ok().map(|text| statistics(&text)),
        }
    }

    pub fn segments(&self) -> Segments {
        Segments::from_memory(self.segments.clone())
    }

    pub fn range(&self) -> Range {
        Range { start: Some(self.start), end: Some(self.end), ..Range::default() }
    }
}

/// The rows of `pg_waldump --stats=record`: a name of one or more words, then four pairs `number (share)`.
fn statistics(text: &str) -> BTreeMap<String, (u64, u64, u64)> {
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains('/') && !line.starts_with("WAL statistics")) {
        let words: Vec<&str> = line.replace(['(', ')'], " ").leak().split_whitespace().collect();
        let (name, columns) = words.split_at(words.len() - 8);
        let number = |column: usize| columns[column * 2].parse::<u64>().unwrap();
        rows.insert(name.join(" "), (number(0), number(1), number(2)));
    }
    rows
}

/// What reading gave: the records, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// LSN, end, checksum of the whole record.
    pub records: Vec<(Lsn, Lsn, u32)>,
    pub end: Result<Finish, Error>,
}

impl Outcome {
    pub fn message(&self) -> String {
        match &self.end {
            Ok(Finish::EndOfWal { reason }) => reason.to_string(),
            Ok(finish) => format!("{finish:?}"),
            Err(Error::NoRecord { source, .. }) => source.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// Counting in parts gives what reading in order gave, and ends with the same words.
fn check_parts(segments: Arc<Segments>, range: Range, reader: &Reader, end: &Result<(), Error>) {
    let counted = |threads| {
        let (stats, finish) = Stats::read_until_error(Arc::clone(&segments), range, threads).unwrap();
        let mut relations: Vec<String> = stats
            .relations()
            .iter()
            .map(|entry| {
                format!(
                    "{:?}",
                    (entry.relation, entry.fork, entry.totals, entry.method, entry.distinct_blocks())
                )
            })
            .collect();
        relations.sort();
        let minutes: Vec<_> = stats.rate().minutes().collect();
        let totals: Vec<_> = stats.by_operation().collect();
        let said = format!("{:?}", finish);
        assert_eq!(stats.accounting, reader.accounting(), "{threads} threads");
        assert_eq!(stats.gaps, reader.gaps());
        assert_eq!((stats.start, stats.end), (reader.first_lsn(), reader.end_lsn()));
        match (&finish, end) {
            (Err(one), Err(other)) => assert_eq!(format!("{one:?}"), format!("{other:?}")),
            (Ok(one), Ok(())) => assert_eq!(format!("{one:?}"), format!("{:?}", reader.finish().unwrap())),
            (one, other) => panic!("{one:?} with {threads} threads, {other:?} in order"),
        }
        let rest = (stats.images(), stats.transactions(), stats.checkpoints().to_vec(), stats.timeline);
        format!("{said} {totals:?} {relations:?} {minutes:?} {:?} {rest:?}", stats.rate().untimed())
    };
    assert_eq!(counted(1), counted(3));
}

/// Reads everything; the accounting must add up wherever reading ends.
pub fn read(segments: Segments, range: Range) -> Outcome {
    let mut records = Vec::new();
    let segments = Arc::new(segments);
    let mut reader = match Reader::open(Arc::clone(&segments), range) {
        Ok(reader) => reader,
        Err(error) => return Outcome { records, end: Err(error) },
    };
    let end = loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                // Everything a record offers can be looked at.
                for block in record.blocks {
                    assert_eq!(
                        record.image(block).len(),
                        block.image.map_or(0, |image| usize::from(image.length))
                    );
                    assert_eq!(record.block_data(block).len(), usize::from(block.data_length));
                }
                assert_eq!(record.bytes().len(), record.header.total_length as usize);
                records.push((record.lsn, record.end, record.header.crc));
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let gaps: u64 = reader.gaps().iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(reader.accounting().total() + gaps, reader.end_lsn() - reader.first_lsn());
    check_parts(segments, range, &reader, &end);
    Outcome { records, end: end.map(|()| reader.into_finish()) }
}
