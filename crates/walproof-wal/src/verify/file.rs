//! One file after the other, or several at a time: opened, unpacked, read to its end.

use rayon::prelude::*;
use rayon::ThreadPool;
use sha1::{Digest, Sha1};

use super::fault::{Cause, Fault};
use super::walk::Walk;
use super::FileFacts;
use crate::error::Error;
use crate::lsn::{Lsn, SegmentName};
use crate::page::{PageHeader, PAGE_SIZE};
use crate::source::archive::{lz4_is_closed, Format};
use crate::source::{Place, SegmentFile};
use crate::version::PgVersion;
use crate::watch::Watch;

const PAGE: usize = PAGE_SIZE as usize;
/// Bytes read at a time.
const BUFFER_SIZE: usize = 32 * PAGE;
/// A timeline's history has a line for each promotion, a backup's label some ten, pgBackRest's backup.info one of 1 kB for
/// each backup.
const LONGEST_TEXT: usize = 64 << 20;

/// A file that is to be verified.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file.
    pub place: Place,
    /// The segment that its name says it is.
    pub name: SegmentName,
    /// Whether its name says that it may end early.
    pub is_partial: bool,
    /// How its name says that it is compressed: `gz`, `lz4`, ...
    pub ending: Option<String>,
    /// Whether the SHA-1 of its bytes is wanted.
    pub wants_sha1: bool,
}

/// Verifies files on all threads of the pool; facts in the order of the requests. Each counts as a whole segment.
///
/// # Errors
/// [`Error::Interrupted`]: the facts of files that were not read to their end are none.
pub fn verify_files(
    requests: &[Request],
    segment_size: u32,
    pool: &ThreadPool,
    watch: &Watch,
) -> Result<Vec<FileFacts>, Error> {
    watch.begin(requests.len() as u64 * u64::from(segment_size));
    let verify = |request| {
        let facts = verify_file(request, segment_size, watch);
        watch.add(u64::from(segment_size).saturating_sub(facts.bytes));
        facts
    };
    // Taken in their order, in which a store's objects are fetched ahead.
    let numbered =
        requests.iter().enumerate().par_bridge().map(|(number, request)| (number, verify(request)));
    let mut facts: Vec<(usize, FileFacts)> = pool.install(|| numbered.collect());
    watch.check()?;
    facts.sort_by_key(|(number, _)| *number);
    Ok(facts.into_iter().map(|(_, facts)| facts).collect())
}

/// Reads one file to its end. Whatever is wrong with it is in the facts, which are none once `watch` was stopped.
#[must_use]
pub fn verify_file(request: &Request, segment_size: u32, watch: &Watch) -> FileFacts {
    let Some(start) = request.name.start(segment_size) else {
        let message = format!("no segment of {segment_size} bytes has the name {}", request.name);
        let fault = Fault::of_file(Cause::Page, Lsn(0), 0, message);
        return FileFacts { faults: vec![fault], ..FileFacts::default() };
    };
    let mut walk = Walk::new(request.name, start, segment_size);
    let mut sha1 = request.wants_sha1.then(Sha1::new);
    let (bytes, failure) = match read(request, start, segment_size, &mut walk, &mut sha1, watch) {
        Ok((bytes, format)) => (bytes, length_fault(request, start, segment_size, bytes, format, watch)),
        Err((bytes, fault)) => (bytes, Some(fault)),
    };
    let mut facts = walk.finish();
    facts.bytes = bytes;
    let is_whole = failure.is_none() && bytes == u64::from(segment_size);
    facts.sha1 = sha1.filter(|_| is_whole).map(|sha1| sha1.finalize().into());
    // What a partial file lacks is no fault of it.
    let is_expected = |fault: &Fault| {
        request.is_partial && matches!(fault.cause, Cause::Truncated | Cause::Unpack) && bytes > 0
    };
    facts.faults.extend(failure.filter(|fault| !is_expected(fault)));
    // A timeline that did not go on is known at the end alone.
    facts.faults.sort_by_key(|fault| fault.lsn);
    facts
}

/// Bytes of the file and how it is compressed, or how many bytes there were before it could not be read on.
fn read(
    request: &Request,
    start: Lsn,
    segment_size: u32,
    walk: &mut Walk,
    sha1: &mut Option<Sha1>,
    watch: &Watch,
) -> Result<(u64, Option<Format>), (u64, Fault)> {
    let place = request.place.clone();
    let mut file = SegmentFile::open(place, watch).map_err(|error| (0, Fault::error(&error, start, 0)))?;
    if let Some(fault) = wrong_format(request, &file, start) {
        return Err((0, fault));
    }
    let (mut buffer, mut offset) = (vec![0; BUFFER_SIZE], 0u64);
    loop {
        let got = match file.fill(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            // What was unpacked of this piece is lost with it; the pages before were seen.
            Err(error) => return Err((offset, Fault::error(&error, start, offset))),
        };
        let piece = buffer.get(..got).unwrap_or_default();
        if let Some(sha1) = sha1 {
            sha1.update(piece);
        }
        for page in piece.chunks_exact(PAGE) {
            if offset < u64::from(segment_size) {
                walk.page(start.advance(offset), page);
            }
            offset += PAGE as u64;
        }
        offset += (got % PAGE) as u64;
        if got < BUFFER_SIZE || offset > u64::from(segment_size) {
            break; // it is too long, whatever follows
        }
    }
    Ok((offset, file.format()))
}

/// A name that promises a compression that the content has not.
fn wrong_format(request: &Request, file: &SegmentFile, start: Lsn) -> Option<Fault> {
    let ending = request.ending.as_deref()?;
    let expected = match ending {
        "gz" => Format::Gzip,
        "lz4" => Format::Lz4,
        "zst" | "zstd" => Format::Zstd,
        "xz" => Format::Xz,
        "lzma" => Format::Lzma,
        "bz2" => Format::Bzip2,
        _ => Format::Brotli,
    };
    match file.format() {
        // Tools give both LZMA formats both endings.
        Some(format) if format != Format::Aes => None,
        _ => {
            let path = request.place.path().display();
            let message = format!("could not unpack \"{path}\": the content is not {expected}");
            Some(Fault::of_file(Cause::Unpack, start, 0, message))
        }
    }
}

fn length_fault(
    request: &Request,
    start: Lsn,
    segment_size: u32,
    bytes: u64,
    format: Option<Format>,
    watch: &Watch,
) -> Option<Fault> {
    let size = u64::from(segment_size);
    if bytes > size {
        let message = format!("the file goes on after {size} bytes, where the segment ends");
        return Some(Fault::of_file(Cause::TooLong, start, size, message));
    }
    if bytes < size {
        let message = format!("the file ends after {bytes} of {size} bytes");
        return Some(Fault::of_file(Cause::Truncated, start, bytes, message));
    }
    if format == Some(Format::Lz4) && !lz4_is_closed(&request.place, watch).unwrap_or(false) {
        let path = request.place.path().display();
        let message = format!("could not unpack \"{path}\": the lz4 frame has no end");
        return Some(Fault::of_file(Cause::Unpack, start, bytes, message));
    }
    None
}

/// A small text beside the segments (the history of a timeline, the label of a backup), unpacked if need be.
///
/// # Errors
/// [`Error::Io`], [`Error::Archive`], [`Error::Encrypted`], [`Error::NotAFile`], [`Error::Interrupted`].
pub fn read_text(place: Place, watch: &Watch) -> Result<String, Error> {
    let mut file = SegmentFile::open(place, watch)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; BUFFER_SIZE]);
    while bytes.len() < LONGEST_TEXT {
        let length = file.fill(&mut piece)?;
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        if length < piece.len() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Version, system identifier and segment size that the first page of a file names; None when it cannot be read.
#[must_use]
pub fn probe(place: Place, watch: &Watch) -> Option<(PgVersion, u64, u32)> {
    let first_page = || -> Result<Vec<u8>, Error> {
        let mut page = vec![0; PAGE];
        let got = SegmentFile::open_head(place, watch)?.fill(&mut page)?;
        page.truncate(got);
        Ok(page)
    };
    let header = PageHeader::parse(&first_page().ok()?)?;
    let (version, long) = (PgVersion::from_magic(header.magic)?, header.long?);
    let is_size = crate::page::is_segment_size(long.segment_size) && long.block_size == PAGE_SIZE;
    is_size.then_some((version, long.system_identifier, long.segment_size))
}
