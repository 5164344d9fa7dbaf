//! Recovery, simulated on WAL of any records.

use walproof_recovery::{analyse, last_checkpoint, Images, Plan};
use walproof_wal::{Range, Segments, Stats};

use std::sync::Arc;

use crate::forged::{wal, Script};

/// Options, then instructions. Records are those that statistics count, what pools do adds up, and asking for the work up
/// to a place in between changes nothing of the work up to the end.
pub fn recovery(input: &[u8]) {
    let mut script = Script(input);
    let (options, crashed, ahead) = (script.byte(), script.byte(), script.byte());
    let wal = wal(&mut script);
    let range = Range { end: (options & 1 != 0).then_some(wal.end), ..Range::default() };
    let images = match options >> 1 & 3 {
        0 | 1 => Images::Recorded,
        2 => Images::First,
        _ => Images::Off,
    };
    let plan = Plan {
        buffers: vec![16, 20, 64, 1024],
        concurrency: (options & 8 != 0).then_some(u32::from(options >> 4)),
        marks: Vec::new(),
        images,
        crashed: (crashed > 0).then_some(16 * u32::from(crashed)),
        read_ahead: u32::from(ahead % 64),
    };
    let segments = Arc::new(Segments::from_memory(wal.segments));
    let found = analyse(Arc::clone(&segments), range, &plan);
    let counted = Stats::read(Arc::clone(&segments), range, 1);
    let (found, stats) = match (found, counted) {
        (Ok(found), Ok((stats, _))) => (found, stats),
        (found, counted) => {
            assert_eq!(found.is_ok(), counted.is_ok(), "{found:?} {counted:?}");
            return;
        }
    };
    let last = found.last();
    let work = last.work;
    assert_eq!(work.records, stats.totals().records);
    assert_eq!(work.record_bytes, stats.totals().combined_bytes());
    assert_eq!(work.images.count(), stats.totals().image_count);
    assert!(work.pages <= work.references && work.dirty <= work.pages && work.runs <= work.dirty);
    assert!(
        work.restored <= work.references
            && work.done <= work.references
            && work.initialised <= work.references
    );
    for (on, off) in last.pools.iter().zip(&last.pools_off) {
        for pool in [on, off] {
            assert!(pool.reads <= pool.misses && pool.misses <= work.references, "{pool:?}");
            assert!(pool.resident <= pool.frames && pool.frames <= pool.misses, "{pool:?}");
            assert!(pool.far_reads <= pool.reads && pool.first_writes <= pool.evictions, "{pool:?}");
        }
        assert_eq!(off.prefetches, 0);
    }
    let middle = wal.start.advance((wal.end - wal.start) / 2);
    let marked = analyse(Arc::clone(&segments), range, &Plan { marks: vec![middle], ..plan });
    assert!(marked.as_ref().is_ok_and(|marked| marked.last() == last), "{marked:?} {last:?}");
    // Looked for from the end: it may be one after a gap.
    let checkpoint = last_checkpoint(&segments, range, 2);
    assert!(checkpoint.is_ok(), "{checkpoint:?}");
    if let Ok(checkpoint) = checkpoint.map(|found| found.filter(|found| found.lsn < stats.end)) {
        assert!(checkpoint.is_none_or(|found| stats.checkpoints().last() == Some(&found)), "{checkpoint:?}");
    }
}
