//! WAL without contents: nothing more to take the second time, the same records at the same places, and no more bytes out
//! of a stream than go in.

use std::sync::Arc;

use walproof_wal::{Lsn, Range, Reader, SegmentName, Segments, Stream};

use crate::forge::SEGMENT_SIZE;
use crate::forged::{joined, one_record, wal, Script};

/// As the first byte: the rest are instructions that make WAL of several segments.
const FORGED: u8 = 255;

/// The first byte chooses: the rest is a segment, or version, resource manager, operation and content of a record whose
/// header and checksum are right, or instructions.
pub fn strip(input: &[u8]) {
    let Some((shape, rest)) = input.split_first() else { return };
    let files = match *shape {
        FORGED => wal(&mut Script(rest)).segments,
        shape => {
            let bytes = if shape % 2 == 0 { rest.to_vec() } else { one_record(rest) };
            vec![(SegmentName { timeline: 1, log: 0, segment: 1 }, bytes)]
        }
    };
    let once = stripped(files.clone());
    if let Some(once) = &once {
        let twice = stripped(once.clone());
        assert!(twice.as_ref() == Some(once), "stripped again, it differs");
        assert_eq!(places(once.clone()), places(files.clone()));
    }
    let Some(start) = files.first().and_then(|(name, _)| name.start(SEGMENT_SIZE)) else { return };
    let bytes = joined(&files);
    let mut stream = Stream::new(start, SEGMENT_SIZE);
    let mut out = Vec::new();
    for piece in bytes.chunks(1 + usize::from(*shape) * 40) {
        if stream.push(piece, &mut |_| {}, &mut out).is_err() {
            break;
        }
    }
    assert!(out.len() <= bytes.len());
}

fn stripped(files: Vec<(SegmentName, Vec<u8>)>) -> Option<Vec<(SegmentName, Vec<u8>)>> {
    let mut written = Vec::new();
    walproof_wal::strip(&Arc::new(Segments::from_memory(files)), None, &mut |_| {}, &mut |name, bytes| {
        written.push((name, bytes.to_vec()));
        Ok(())
    })
    .ok()?;
    Some(written)
}

/// Where the records are, with what stands in their headers.
fn places(files: Vec<(SegmentName, Vec<u8>)>) -> Vec<(Lsn, Lsn, u8, u8, usize)> {
    let mut found = Vec::new();
    let Ok(mut reader) = Reader::open(Segments::from_memory(files), Range::default()) else { return found };
    while let Ok(Some(record)) = reader.next_record() {
        let header = record.header;
        found.push((record.lsn, record.end, header.rmgr.0, header.info, record.blocks.len()));
    }
    found
}
