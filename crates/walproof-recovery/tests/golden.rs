//! The simulation on WAL that servers of each version wrote.
#![allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

#[path = "../../walproof-wal/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::Golden;
use walproof_recovery::{analyse, last_checkpoint, Images, Plan};
use walproof_wal::{PgVersion, Range, Stats};

const BUFFERS: [u32; 4] = [16, 128, 1024, 131_072];

#[test]
fn what_adds_up_adds_up() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let middle = golden.start.advance((golden.end - golden.start) / 2);
        let plan = Plan { buffers: BUFFERS.to_vec(), marks: vec![middle], ..Plan::default() };
        let found = analyse(golden.segments(), golden.range(), &plan).unwrap();
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        let last = found.last();
        assert_eq!(found.features.len(), 2, "{version}");
        assert_eq!(last.work.records, stats.totals().records);
        assert_eq!(last.work.images.count(), stats.totals().image_count);
        // By the names that pg_waldump gives; those whose page comes from an image are left out.
        let names =
            ["Heap2/CLEAN", "Heap2/PRUNE", "Btree/SPLIT", "Btree/DEDUP", "Btree/DELETE", "Btree/VACUUM"];
        let compact = stats.by_operation().filter(|(operation, _)| {
            let name = operation.to_string();
            names.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("CLEANUP")
        });
        let compactions: u64 = compact.map(|(_, totals)| totals.records).sum();
        assert!((1..=compactions).contains(&last.work.compactions), "{version}: {compactions}");
        assert!((1..last.work.pages).contains(&last.work.extensions), "{version}: {}", last.work.extensions);
        assert!(last.work.relations_dropped > 0, "{version}: the golden WAL drops relations");
        for pool in &last.pools {
            assert!(pool.reads <= pool.misses && pool.misses <= last.work.references, "{version}: {pool:?}");
            assert!(pool.resident <= pool.frames && pool.resident <= last.work.dirty, "{version}: {pool:?}");
            assert!(pool.frames <= pool.misses);
        }
        for (on, off) in last.pools.iter().zip(&last.pools_off) {
            assert!(off.prefetches == 0 && off.disk_reads <= on.disk_reads, "{version}: {on:?} {off:?}");
        }
        // Larger buffers never hold fewer pages at the end, and miss no more often.
        assert!(last.pools.is_sorted_by(|pool, next| pool.misses >= next.misses), "{version}");
        assert!(last.pools.is_sorted_by(|pool, next| pool.resident <= next.resident), "{version}");
        let most = last.pools[3];
        assert_eq!((most.evictions, most.resident), (0, last.work.dirty), "{version}");
        assert!((1..=last.work.dirty).contains(&last.work.runs) && last.work.dirty <= last.work.pages);
        let first = &found.features[0];
        assert!(first.end <= middle && first.work.records < last.work.records);
    }
}

#[test]
fn prefetching_starts_with_15() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let plan = Plan { buffers: vec![1024], ..Plan::default() };
        let found = analyse(golden.segments(), golden.range(), &plan).unwrap();
        assert_eq!(found.last().pools[0].prefetches > 0, version >= PgVersion::V15, "{version}");
    }
}

#[test]
fn images_of_every_first_touch_leave_nothing_to_read() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let reads = |images| {
            let plan = Plan { buffers: vec![131_072], images, ..Plan::default() };
            analyse(golden.segments(), golden.range(), &plan).unwrap().last().pools_off[0].disk_reads
        };
        assert_eq!(reads(Images::First), 0, "{version}");
        assert!(reads(Images::Off) >= reads(Images::Recorded), "{version}");
        let restored = |images| {
            let plan = Plan { buffers: vec![16], images, ..Plan::default() };
            analyse(golden.segments(), golden.range(), &plan).unwrap().last().work
        };
        let (first, recorded) = (restored(Images::First), restored(Images::Recorded));
        assert!(first.restored + first.initialised >= first.pages, "{version}: {first:?}");
        assert!(recorded.restored <= recorded.images.count(), "{version}: {recorded:?}");
        assert!(restored(Images::Off).restored <= recorded.restored, "{version}");
    }
}

#[test]
fn the_last_checkpoint_is_the_one_that_statistics_name() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let (stats, _) = Stats::read(golden.segments(), golden.range(), 1).unwrap();
        let found = last_checkpoint(&Arc::new(golden.segments()), golden.range(), 2).unwrap();
        assert_eq!(found.as_ref(), stats.checkpoints().last(), "{version}");
        if let Some(first) = stats.checkpoints().first() {
            let before = Range { end: Some(first.lsn), ..golden.range() };
            let found = last_checkpoint(&Arc::new(golden.segments()), before, 2).unwrap();
            assert_eq!(found, None, "{version}");
        }
    }
}
