//! How fast WAL is read: `cargo bench -p walproof-wal`. The share of the checksum alone is the limit to beat.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../tests/support/mod.rs"]
mod support;

use divan::counter::BytesCount;
use divan::Bencher;
use support::forge::{main_data, Forge};
use walproof_wal::{PgVersion, Range, Segments, Stats};

/// 16 MB of records with that many bytes of content.
fn forged(length: usize) -> Segments {
    let mut forge = Forge::new(PgVersion::V18, 1);
    let content = main_data(length);
    for _ in 0..(16 << 20) / (24 + length) {
        forge.record(21, 0, 0, &content);
    }
    Segments::from_memory(forge.segments())
}

/// Small records cost by number, large ones by byte.
#[divan::bench(args = [40, 200, 2000, 8000])]
fn stats(bencher: Bencher<'_, '_>, length: usize) {
    let segments = forged(length);
    bencher
        .counter(BytesCount::new(16usize << 20))
        .bench(|| Stats::read(segments.clone(), Range::default(), 1).unwrap().0.totals());
}

/// Real WAL of a mixed load.
#[divan::bench]
fn golden(bencher: Bencher<'_, '_>) {
    let golden = support::Golden::load(PgVersion::V18);
    let segments = golden.segments();
    bencher
        .counter(BytesCount::new(golden.end - golden.start))
        .bench(|| Stats::read(segments.clone(), golden.range(), 1).unwrap().0.totals());
}

/// The checksum of as many bytes, without anything else.
#[divan::bench]
fn checksum_alone(bencher: Bencher<'_, '_>) {
    let bytes = vec![0xABu8; 16 << 20];
    bencher.counter(BytesCount::new(bytes.len())).bench(|| walproof_wal::checksum(&bytes));
}

fn main() {
    divan::main();
}
