//! Segments as archiving tools leave them: compressed in every way, under every name, mixed, damaged.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use support::{read, Golden, Outcome};
use walproof_wal::{Error, PgVersion, Range, Segments};

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("walproof-archives-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const METHODS: [&str; 6] = ["gz", "lz4", "zst", "xz", "lzma", "bz2"];

fn compress(method: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match method {
        "gz" => {
            let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        "lz4" => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut out);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        "zst" => zstd::stream::copy_encode(bytes, &mut out, 1).unwrap(),
        "xz" => {
            liblzma::read::XzEncoder::new(bytes, 0).read_to_end(&mut out).unwrap();
        }
        "lzma" => {
            let options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
            let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
            liblzma::read::XzEncoder::new_stream(bytes, stream).read_to_end(&mut out).unwrap();
        }
        "bz2" => {
            bzip2::read::BzEncoder::new(bytes, bzip2::Compression::fast()).read_to_end(&mut out).unwrap();
        }
        "br" => {
            let options = brotli::enc::BrotliEncoderParams { quality: 3, ..Default::default() };
            brotli::BrotliCompress(&mut &bytes[..], &mut out, &options).unwrap();
        }
        _ => panic!("{method}"),
    }
    out
}

fn read_path(path: &Path, range: Range) -> Outcome {
    match Segments::from_paths(&[path]) {
        Ok(segments) => read(segments, range),
        Err(error) => Outcome { records: Vec::new(), end: Err(error) },
    }
}

#[test]
fn every_compression_gives_the_same_records() {
    let golden = Golden::load(PgVersion::V18);
    let plain = read(golden.segments(), golden.range());
    // Brotli's data has no mark: from memory, or under a plain name, it cannot be told.
    for method in METHODS.into_iter().chain(["br"]) {
        let folder = Folder::new();
        for (name, bytes) in &golden.segments {
            folder.write(&format!("{name}.{method}"), &compress(method, bytes));
        }
        let outcome = read_path(&folder.0, golden.range());
        assert!(outcome.end.is_ok(), "{method}: {}", outcome.message());
        assert_eq!(outcome.records, plain.records, "{method}");
    }
}

/// Each tool's folders and names; Barman's files say only by their content that they are compressed.
#[test]
fn every_archiver_s_folders_and_any_mixture() {
    let golden = Golden::load(PgVersion::V15);
    let plain = read(golden.segments(), golden.range());
    let sum = "0123456789abcdef0123456789abcdef01234567";
    type Layout = fn(&str, &str) -> String;
    let layouts: [(&str, Layout); 5] = [
        ("bz2", |name, _| format!("wals/{}/{name}", &name[..16])),
        ("zst", |name, sum| format!("archive/main/15-1/{}/{name}-{sum}.zst", &name[..16])),
        ("lz4", |name, _| format!("wal_005/{name}.lz4")),
        ("gz", |name, _| format!("{name}.gz.partial")),
        ("xz", |name, _| format!("deep/er/{name}.xz")),
    ];
    for (method, layout) in layouts {
        let folder = Folder::new();
        folder.write("archive_status/x.ready", b"");
        folder.write(&format!("{}.00000028.backup", golden.segments[0].0), b"START WAL LOCATION");
        for (name, bytes) in &golden.segments {
            folder.write(&layout(&name.to_string(), sum), &compress(method, bytes));
        }
        assert_eq!(read_path(&folder.0, golden.range()).records, plain.records, "{method}");
    }
    let (first, two) = (Folder::new(), Folder::new());
    for (number, (name, bytes)) in golden.segments.iter().enumerate() {
        let method = METHODS[number % METHODS.len()];
        match number % 2 {
            0 => first.write(&name.to_string(), bytes),
            _ => two.write(&format!("{name}.{method}"), &compress(method, bytes)),
        };
        // A worse copy of each, which is not needed: nobody looks into it.
        first.write(&format!("{name}.partial"), b"rubbish");
    }
    let outcome = read(Segments::from_paths(&[&first.0, &two.0]).unwrap(), golden.range());
    assert_eq!(outcome.records, plain.records);
    let alone = Segments::from_paths(&[two.0.join(format!("{}.lz4", golden.segments[1].0))]).unwrap();
    assert_eq!(alone.names().count(), 1);
}

/// Several members, frames or streams in one file are one archive.
#[test]
fn concatenated_archives() {
    let golden = Golden::load(PgVersion::V16);
    let (name, bytes) = &golden.segments[0];
    let plain = read(Segments::from_memory([(*name, bytes.clone())]), Range::default());
    for method in ["gz", "lz4", "zst", "xz", "bz2"] {
        let folder = Folder::new();
        let (head, tail) = bytes.split_at(300_001);
        let path = folder
            .write(&format!("{name}.{method}"), &[compress(method, head), compress(method, tail)].concat());
        let outcome = read_path(&path, Range::default());
        assert_eq!(outcome.records, plain.records, "{method}: {}", outcome.message());
    }
}

/// An archive cut anywhere is an error that names it, after the records before the cut; never an end of the WAL.
#[test]
fn cut_archives() {
    let golden = Golden::load(PgVersion::V18);
    let (name, bytes) = &golden.segments[0];
    let plain = read(Segments::from_memory([(*name, bytes.clone())]), Range::default());
    for method in METHODS {
        let folder = Folder::new();
        let packed = compress(method, bytes);
        for cut in (0..packed.len()).step_by(packed.len() / 23) {
            let path = folder.write(&format!("{name}.{method}"), &packed[..cut]);
            let outcome = read_path(&path, Range::default());
            assert_eq!(outcome.records, plain.records[..outcome.records.len()], "{method} cut at {cut}");
            let error = match outcome.end {
                // What was cut off is the unused rest after a segment switch.
                Ok(_) if outcome.records.len() == plain.records.len() => continue,
                Ok(finish) => panic!("{method} cut at {cut}: {finish:?}"),
                Err(Error::NoRecord { source, .. }) => *source,
                Err(other) => other,
            };
            if cut < 6 {
                continue; // nothing tells that this was an archive once
            }
            let Error::Archive { .. } = error else { panic!("{method} cut at {cut}: {error}") };
            assert!(error.to_string().starts_with(&format!("could not unpack \"{}\": ", path.display())));
            assert!(error.detail().unwrap().contains("of the segment") && error.hint().is_some());
        }
    }
}

/// What unpacks to more than a segment costs no more than the segment.
#[test]
fn bombs() {
    let golden = Golden::load(PgVersion::V18);
    let (name, bytes) = &golden.segments[0];
    let plain = read(Segments::from_memory([(*name, bytes.clone())]), Range::default());
    let mut bomb = bytes.clone();
    bomb.resize(256 << 20, 0);
    for method in ["gz", "zst", "lz4"] {
        let folder = Folder::new();
        let path = folder.write(&format!("{name}.{method}"), &compress(method, &bomb));
        assert!(path.metadata().unwrap().len() < 4 << 20);
        assert_eq!(read_path(&path, Range::default()).records, plain.records, "{method}");
    }
}

/// Headers that ask for gigabytes, before anything that would fill them.
#[test]
fn hostile_headers() {
    let mut xz = compress("xz", b"one block");
    // Behind the stream's header the block's: its size, flags, filter LZMA2, one byte for it: a dictionary of 4 GB.
    assert_eq!(xz[14..16], [0x21, 1]);
    xz[16] = 40;
    let end = 12 + 4 * usize::from(xz[12]);
    let mut crc = flate2::Crc::new();
    crc.update(&xz[12..end]);
    xz[end..end + 4].copy_from_slice(&crc.sum().to_le_bytes());
    let mut lzma = compress("lzma", b"one stream");
    lzma[1..5].copy_from_slice(&(2u32 << 30).to_le_bytes());
    // A window of 2 GB, and a last block of one byte as it is.
    let zst = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 21 << 3, 0x9, 0, 0, b'x'];
    // Large window brotli: 1 GB.
    let br = vec![0x11, 30, 0, 0, 0, 0, 0, 0];
    for (method, packed) in [("xz", xz), ("lzma", lzma), ("zst", zst), ("br", br)] {
        let folder = Folder::new();
        let path = folder.write(&format!("000000010000000000000001.{method}"), &packed);
        let error = match read_path(&path, Range::default()).end.unwrap_err() {
            Error::NoRecord { source, .. } => *source,
            other => other,
        };
        let expected =
            format!("could not unpack \"{}\": its header asks for too much memory", path.display());
        assert_eq!(error.to_string(), expected, "{method}");
        assert!(error.hint().unwrap().contains("128 MB"), "{method}");
    }
}

#[test]
fn what_is_known_and_not_read_is_named() {
    let golden = Golden::load(PgVersion::V18);
    let name = golden.segments[0].0;
    let folder = Folder::new();
    let cases = [(format!("{name}-{}.gz", "0".repeat(40)), b"Salted__12345678".to_vec(), "encrypted")];
    for (file, bytes, what) in cases {
        let path = folder.write(&file, &bytes);
        let error = read_path(&path, Range::default()).end.unwrap_err();
        let why = "no archive.info of pgBackRest is in the folders above it";
        assert_eq!(error.to_string(), format!("cannot read \"{}\": it is {what}, and {why}", path.display()));
        fs::remove_file(path).unwrap();
    }
    let path = folder.write("notes.txt", b"x");
    let error = read_path(&path, Range::default()).end.unwrap_err().to_string();
    assert_eq!(error, format!("file \"{}\" is not a WAL segment", path.display()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes changed anywhere in an archive: the records before the damage, then an error or an end.
    #[test]
    fn damaged_archives(
        method in prop::sample::select(METHODS.to_vec()),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let golden = Golden::load(PgVersion::V17);
        let (name, bytes) = &golden.segments[1];
        let plain = read(Segments::from_memory([(*name, bytes.clone())]), Range::default());
        let mut packed = compress(method, bytes);
        for (index, byte) in places {
            let at = index.index(packed.len());
            packed[at] = byte;
        }
        let folder = Folder::new();
        let path = folder.write(&format!("{name}.{method}"), &packed);
        let outcome = read_path(&path, Range::default());
        prop_assert_eq!(&outcome.records, &plain.records[..outcome.records.len()].to_vec());
    }
}
