//! Makes a long WAL out of a short one, for measuring memory: the same records again and again, at later and later
//! locations, with page addresses, links and checksums to match.
//!
//! `cargo run --release --example repeat -- SOURCE TARGET TIMES`: SOURCE holds whole segments, the last one ended
//! by pg_switch_wal; TARGET gets TIMES as many, compressed with zstd.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;

use walproof_wal::{Lsn, Range, Reader, SegmentName, Segments};

const PAGE: usize = 8192;

/// A record's place in the source, and what changes in it when it moves.
struct Place {
    offset: usize,
    prev: u64,
    /// Header without its link: length and transaction, then operation and resource manager.
    header: [u8; 20],
    data_crc: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, times] = arguments.as_slice() else {
        return Err("usage: repeat SOURCE TARGET TIMES".into());
    };
    let target = PathBuf::from(target);
    fs::create_dir_all(&target)?;
    let mut files = fs::read_dir(source)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<PathBuf>, _>>()?;
    files.sort();
    let mut bytes = Vec::new();
    for file in &files {
        bytes.extend(fs::read(file)?);
    }

    let mut reader = Reader::open(Segments::from_paths(&files)?, Range::default())?;
    let size = reader.identity().segment_size;
    let timeline = reader.timeline().max(1);
    let start = reader.first_lsn().align_down(u64::from(size));
    let mut places = Vec::new();
    while let Some(record) = reader.next_record()? {
        let whole = record.bytes();
        let (header, data) = whole.split_at_checked(24).ok_or("short record")?;
        places.push(Place {
            offset: usize::try_from(record.lsn - start)?,
            prev: record.header.prev.0,
            header: header.get(..20).ok_or("short header")?.try_into()?,
            data_crc: crc32c::crc32c(data),
        });
    }
    let length = bytes.len() as u64;
    if reader.end_lsn() != start.advance(length) {
        return Err(format!("{source} does not end with a segment switch: {}", reader.end_lsn()).into());
    }
    let last = places.last().ok_or("no records")?.offset as u64;

    for time in 0..times.parse::<u64>()? {
        let shift = time * length;
        for page in bytes.chunks_exact_mut(PAGE).enumerate() {
            let address = start.0 + shift + (page.0 * PAGE) as u64;
            page.1.get_mut(8..16).ok_or("page")?.copy_from_slice(&address.to_le_bytes());
        }
        for (number, place) in places.iter_mut().enumerate() {
            let prev = match (number, time) {
                (_, 0) => place.prev,
                (0, _) => start.0 + shift - length + last,
                _ => place.prev + shift,
            };
            place.header.get_mut(8..16).ok_or("header")?.copy_from_slice(&prev.to_le_bytes());
            let crc = crc32c::crc32c_append(place.data_crc, &place.header);
            put(&mut bytes, place.offset, 8, &prev.to_le_bytes(), size)?;
            put(&mut bytes, place.offset, 20, &crc.to_le_bytes(), size)?;
        }
        for (number, segment) in bytes.chunks_exact(size as usize).enumerate() {
            let lsn = Lsn(start.0 + shift + number as u64 * u64::from(size));
            let name = SegmentName::holding(lsn, timeline, size);
            let file = File::create(target.join(format!("{name}.zst")))?;
            zstd::stream::copy_encode(segment, file, 1)?;
        }
    }
    Ok(())
}

/// Overwrites bytes `skip` into the record at `offset`, which may go on after the headers of pages.
fn put(bytes: &mut [u8], offset: usize, skip: usize, new: &[u8], size: u32) -> Result<(), Box<dyn Error>> {
    let mut at = offset;
    for number in 0..skip + new.len() {
        if at % PAGE == 0 {
            at += if at % size as usize == 0 { 40 } else { 24 };
        }
        if let Some(byte) = number.checked_sub(skip).and_then(|index| new.get(index)) {
            *bytes.get_mut(at).ok_or("a record after the end")? = *byte;
        }
        at += 1;
    }
    Ok(())
}
