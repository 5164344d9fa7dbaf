//! Other settings, simulated on WAL of any records.

use walproof_wal::{Compression, Lsn, Range, Segments, Stats};
use walproof_whatif::{simulate, ImageCompression, Request, Target};

use crate::forged::{wal, Script};

/// Options, then instructions. What is said of the recording is what statistics say of it, the parts of each outcome fit
/// into the whole, and a table that holds all pages says what one without a limit says.
pub fn whatif(input: &[u8]) {
    let mut script = Script(input);
    let (options, size, timeout, late) = (script.byte(), script.byte(), script.byte(), script.byte());
    let wal = wal(&mut script);
    let range = Range { end: (options & 1 != 0).then_some(wal.end), ..Range::default() };
    let target = Target {
        max_wal_size_mb: (size < 255).then_some(u64::from(size)),
        min_wal_size_mb: u64::from(late % 16),
        checkpoint_timeout_s: (timeout < 255).then_some(u64::from(timeout)),
        completion_target: f64::from(late) / 255.0,
        full_page_writes: true,
        compression: ImageCompression::AsRecorded,
        hint_records: options & 2 == 0,
        ordered_keys: options & 16 != 0,
        phase: if options & 4 != 0 { 0.5 } else { 0.0 },
        late_segments: u64::from(late >> 6),
    };
    let targets = [
        target,
        Target { full_page_writes: false, ..target },
        Target { compression: ImageCompression::Off, ..target },
        Target { compression: ImageCompression::Method(Compression::Lz4), ..target },
    ];
    let times = [(wal.start, 0), (wal.end, i64::from(late) * 60_000_000)];
    let times: &[(Lsn, i64)] = if options & 8 != 0 { &times } else { &[] };
    let request = Request { times, ordered: &[1, 2, 3], ..Request::new(&targets) };
    let found = simulate(Segments::from_memory(wal.segments.clone()), range, &request);
    let counted = Stats::read(Segments::from_memory(wal.segments.clone()), range, 1);
    let (found, stats) = match (found, counted) {
        (Ok(found), Ok((stats, _))) => (found, stats),
        (found, counted) => {
            assert_eq!(found.is_ok(), counted.is_ok(), "{found:?} {counted:?}");
            return;
        }
    };
    let (recorded, totals) = (&found.recorded, stats.totals());
    assert_eq!(recorded.records, totals.records);
    assert_eq!(recorded.record_bytes, totals.combined_bytes());
    // Of checkpoints and snapshots, which have none, images are not counted.
    assert!(recorded.images <= totals.image_count && recorded.image_bytes <= totals.image_bytes);
    assert!(recorded.hint_images <= recorded.images && recorded.pages <= recorded.references);
    assert!(recorded.held_pages <= recorded.pages && recorded.begun_before <= recorded.pages);
    for outcome in &found.outcomes {
        assert!(outcome.first_images <= outcome.images && outcome.guessed_images <= outcome.images);
        assert!(outcome.first_image_bytes <= outcome.image_bytes);
        // An image may be smaller than the data that it takes the place of.
        assert!(outcome.wal_bytes >= outcome.base_bytes || outcome.images > 0, "{outcome:?}");
        assert!(outcome.distance_mean <= outcome.distance_most as f64 + 1.0, "{outcome:?}");
        assert!(outcome.cycles.wal_bytes <= outcome.wal_bytes && outcome.cycles.images <= outcome.images);
    }
    if let [on, off, ..] = found.outcomes.as_slice() {
        assert!(off.images <= on.images, "{on:?} {off:?}");
    }
    let all = Request { most_pages: Some(1 << 20), ..request };
    let held = simulate(Segments::from_memory(wal.segments), range, &all);
    assert!(held.is_ok_and(|held| held.outcomes == found.outcomes), "a limit that is not reached matters");
}
