//! Passes that are stopped from outside, and what they tell before.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::ThreadPoolBuilder;
use support::Golden;
use walproof_wal::verify::{verify_files, Request};
use walproof_wal::{strip, Error, PgVersion, Range, Reader, Segments, Source, Stats, Watch};

/// Golden segments as files, which are removed at the end.
struct Folder(PathBuf, Golden);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("walproof-stopped-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let golden = Golden::load(PgVersion::V16);
        for (name, bytes) in &golden.segments {
            fs::write(path.join(name.to_string()), bytes).unwrap();
        }
        Folder(path, golden)
    }

    fn segments(&self, watch: &Watch) -> Arc<Segments> {
        Arc::new(Segments::watched([Source::Path(self.0.clone())], watch).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_pass_that_was_stopped_reads_nothing_more() {
    let folder = Folder::new("before");
    for threads in [1, 2, 7] {
        let watch = Watch::default();
        let segments = folder.segments(&watch);
        let reader = Reader::open(Arc::clone(&segments), folder.1.range()).unwrap();
        watch.stop();
        drop(reader);
        let failed = Stats::read(segments, folder.1.range(), threads).unwrap_err();
        assert!(matches!(failed, Error::Interrupted), "{failed}");
    }
    let watch = Watch::default();
    watch.stop();
    assert!(matches!(Segments::watched([Source::Path(folder.0.clone())], &watch), Err(Error::Interrupted)));
}

/// The stop comes when a thousand records were seen: some segments are written by then, and no other follows.
#[test]
fn a_pass_is_stopped_in_the_middle() {
    let folder = Folder::new("middle");
    let watch = Watch::default();
    let (mut seen, mut written) = (0, 0);
    let done = strip(
        &folder.segments(&watch),
        None,
        &mut |_| {
            seen += 1;
            if seen == 1000 {
                watch.stop();
            }
        },
        &mut |_, _| {
            written += 1;
            Ok(())
        },
    );
    assert!(matches!(done, Err(Error::Interrupted)));
    assert!(written < folder.1.segments.len());
    let records: u64 = folder.1.facts["records"].parse().unwrap();
    assert!((1000..records).contains(&seen), "{seen} of {records} records");
}

#[test]
fn facts_of_files_that_were_not_read_are_none() {
    let folder = Folder::new("verify");
    let request = |name: &walproof_wal::SegmentName| Request {
        place: folder.0.join(name.to_string()).into(),
        name: *name,
        is_partial: false,
        ending: None,
        wants_sha1: false,
    };
    let requests: Vec<Request> = folder.1.segments.iter().map(|(name, _)| request(name)).collect();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let watch = Watch::default();
    assert_eq!(verify_files(&requests, 1 << 20, &pool, &watch).unwrap().len(), requests.len());
    assert_eq!(watch.progress(), (3 << 20, 3 << 20));
    watch.stop();
    assert!(matches!(verify_files(&requests, 1 << 20, &pool, &watch), Err(Error::Interrupted)));
}

/// What a pass tells does not depend on the number of threads, but for pieces that are read twice.
#[test]
fn progress_is_in_bytes_of_the_range() {
    let folder = Folder::new("progress");
    let range = folder.1.range();
    let bytes = range.end.unwrap() - range.start.unwrap();
    for threads in [1, 2, 7] {
        let watch = Watch::default();
        let segments = folder.segments(&watch);
        Stats::read(Arc::clone(&segments), range, threads).unwrap();
        let (done, expected) = watch.progress();
        assert_eq!(expected, bytes);
        // The rest of a segment after a switch, which is not read, among them.
        assert!(done >= bytes, "{threads} threads: {done} of {bytes} bytes");
        // From a segment's first page on, and pieces too far at the end of each part.
        assert!(done <= bytes + (5 << 18), "{threads} threads: {done} of {bytes} bytes");
        Stats::read(segments, Range { end: None, ..range }, threads).unwrap();
        let end = 0xB0_0000 - range.start.unwrap().0;
        assert_eq!(watch.progress().1, end, "up to the end of the last segment");
    }
}
