//! Files of segments, each verified by itself, plain and packed.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use walproof_wal::verify::{verify_file, Cause, FileFacts, Request};
use walproof_wal::{Range, Reader, SegmentName, Segments, Watch};

use crate::archive::pack;
use crate::forge::SEGMENT_SIZE;
use crate::forged::{used, wal, Script};

/// As the first byte: the rest is a file; else it is instructions that make WAL, and the byte how it is packed.
const RAW: u8 = 255;
/// As the first byte and above: files have all of their zeros; else each ends after its last page that holds anything,
/// which is sooner read, as one of which the name says that it may end early.
const WHOLE: u8 = 192;

/// Stretches and faults are in order and within the segment, files hold no fewer records than one reader finds, and a
/// packed file is as good as the plain one.
pub fn verify(input: &[u8]) {
    let Some((shape, rest)) = input.split_first() else { return };
    let Some(mut place) = Place::new() else { return };
    if *shape == RAW {
        let name = SegmentName { timeline: 1, log: 0, segment: 1 };
        place.facts(name, rest, false);
        return;
    }
    let is_partial = *shape < WHOLE;
    let segments = wal(&mut Script(rest)).segments;
    let (mut seen, mut is_stricter) = (0, false);
    for (number, (name, bytes)) in segments.iter().enumerate() {
        let bytes = if is_partial { bytes.get(..used(bytes)).unwrap_or_default() } else { bytes };
        let facts = place.facts(*name, bytes, is_partial);
        seen += facts.stretches.iter().map(|stretch| stretch.records).sum::<u64>();
        seen += u64::from(facts.tail.is_some());
        // A reader, as a server, takes a page of a later timeline than its file's, or with a length of nothing.
        is_stricter |= facts.faults.iter().chain(&facts.end).any(|fault| fault.cause == Cause::Page);
        if number == 0 {
            if let Ok(packed) = pack(*shape, bytes) {
                let unpacked = place.facts(*name, &packed, is_partial);
                assert_eq!((unpacked.bytes, unpacked.sha1), (facts.bytes, facts.sha1));
                assert_eq!(unpacked.stretches, facts.stretches);
            }
        }
    }
    let Ok(mut reader) = Reader::open(Segments::from_memory(segments), Range::default()) else { return };
    let mut records = 0;
    while let Ok(Some(_)) = reader.next_record() {
        records += 1;
    }
    assert!(is_stricter || records <= seen, "{records} records read, {seen} verified");
}

/// A file without a name, so that nothing is left of it.
struct Place(File);

impl Place {
    fn new() -> Option<Place> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("walproof-fuzz-{}-{number}", std::process::id()));
        let file = File::create_new(&path).ok()?;
        std::fs::remove_file(path).ok()?;
        Some(Place(file))
    }

    /// What is found in a file of these bytes.
    fn facts(&mut self, name: SegmentName, bytes: &[u8], is_partial: bool) -> FileFacts {
        let written = self.0.set_len(0).and_then(|()| self.0.rewind()).and_then(|()| self.0.write_all(bytes));
        assert!(written.is_ok(), "{written:?}");
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        let request = Request { place: path.into(), name, is_partial, ending: None, wants_sha1: true };
        let facts = verify_file(&request, SEGMENT_SIZE, &Watch::default());
        let Some(start) = name.start(SEGMENT_SIZE) else { return facts };
        let end = start.advance(u64::from(SEGMENT_SIZE));
        let mut at = start;
        for stretch in &facts.stretches {
            assert!(at <= stretch.start && stretch.start <= stretch.end && stretch.end <= end, "{facts:?}");
            at = stretch.end;
        }
        assert!(facts.faults.is_sorted_by(|fault, next| fault.lsn <= next.lsn), "{facts:?}");
        facts
    }
}
