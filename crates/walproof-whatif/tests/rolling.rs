//! Simulations of WAL that arrives, held against those of the same WAL as a recording.
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

use support::Golden;
use walproof_wal::{Lsn, PgVersion, Range, Reader};
use walproof_whatif::{simulate, Request, Rolling, RollingPlan, Target, WhatIf};

const HOUR_US: i64 = 3_600_000_000;

fn plan(span_us: i64, learn_bytes: u64) -> RollingPlan {
    let targets = [Some(2), Some(8), None].map(|size| Target {
        max_wal_size_mb: size,
        checkpoint_timeout_s: None,
        ..Target::default()
    });
    RollingPlan { targets: targets.to_vec(), most_pages: 1 << 30, span_us, learn_bytes, learn_us: HOUR_US }
}

/// Feeds the records of the recording from the first to the last one that is wanted.
fn feed(rolling: &mut Rolling, golden: &Golden, is_wanted: impl Fn(usize, Lsn) -> bool) {
    let mut reader = Reader::open(golden.segments(), golden.range()).unwrap();
    let mut count = 0;
    while let Some(record) = reader.next_record().unwrap() {
        if is_wanted(count, record.lsn) {
            rolling.add(&record);
        }
        count += 1;
    }
}

fn close(here: u64, there: u64) {
    let (low, high) = (here.min(there) as f64, here.max(there) as f64);
    assert!(high <= low * 1.02 + 10.0, "{here} {there}");
}

fn same(found: &WhatIf, golden: &Golden) {
    let plan = plan(HOUR_US, 0);
    let range = Range { start: Some(found.start), ..golden.range() };
    let whole = simulate(golden.segments(), range, &Request::new(&plan.targets)).unwrap();
    assert_eq!(found.end, whole.end);
    assert_eq!(found.recorded.records, whole.recorded.records);
    assert_eq!(found.recorded.pages, whole.recorded.pages);
    for (here, there) in found.outcomes.iter().zip(&whole.outcomes) {
        close(here.wal_bytes, there.wal_bytes);
        close(here.images, there.images);
    }
}

#[test]
fn what_arrives_is_simulated_as_a_recording_is() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let mut rolling = Rolling::new(1, 1 << 20, 1, plan(HOUR_US, 100_000));
        assert!(rolling.answer().is_none());
        feed(&mut rolling, &golden, |_, _| true);
        let found = rolling.answer().unwrap();
        assert!(found.gaps.is_empty());
        same(&found, &golden);
        assert!(rolling.memory_bytes() > 0 && !rolling.is_overfull());
    }
}

#[test]
fn records_that_come_again_count_once_and_missing_ones_are_a_gap() {
    let golden = Golden::load(PgVersion::ALL[0]);
    let mut rolling = Rolling::new(1, 1 << 20, 1, plan(HOUR_US, 0));
    feed(&mut rolling, &golden, |count, _| count < 2000);
    feed(&mut rolling, &golden, |count, _| (1000..3000).contains(&count));
    assert!(rolling.answer().unwrap().gaps.is_empty());
    feed(&mut rolling, &golden, |count, _| count >= 3100);
    let found = rolling.answer().unwrap();
    assert_eq!(found.gaps.len(), 1);
    assert!(found.gaps[0].start < found.gaps[0].end);
}

#[test]
fn an_answer_covers_half_a_span_at_least_and_a_whole_one_at_most() {
    let golden = Golden::load(PgVersion::ALL[0]);
    let mut whole = Rolling::new(1, 1 << 20, 1, plan(HOUR_US, 0));
    feed(&mut whole, &golden, |_, _| true);
    let recorded = whole.answer().unwrap().recorded;
    let length_us = recorded.last_time_us.unwrap() - recorded.first_time_us.unwrap();
    let span_us = length_us / 5;
    let mut rolling = Rolling::new(1, 1 << 20, 1, plan(span_us, 0));
    feed(&mut rolling, &golden, |_, _| true);
    let found = rolling.answer().unwrap().recorded;
    let covered_us = found.last_time_us.unwrap() - found.first_time_us.unwrap();
    assert!(covered_us <= span_us + found.longest_silence_us, "{covered_us} of {span_us}");
    assert!(2 * (covered_us + 2 * found.longest_silence_us) >= span_us, "{covered_us} of {span_us}");
}

#[test]
fn a_timeline_that_left_before_begins_anew() {
    let golden = Golden::load(PgVersion::ALL[0]);
    let mut rolling = Rolling::new(1, 1 << 20, 1, plan(HOUR_US, 0));
    feed(&mut rolling, &golden, |count, _| count < 2000);
    let end = rolling.answer().unwrap().end;
    rolling.switch_timeline(2, end);
    assert_eq!(rolling.answer().unwrap().timeline, 2);
    rolling.switch_timeline(3, Lsn(end.0 - 8));
    assert!(rolling.answer().is_none());
}

#[test]
fn pages_are_a_sample_of_bounded_size() {
    let golden = Golden::load(PgVersion::ALL[0]);
    let mut rolling = Rolling::new(1, 1 << 20, 1, RollingPlan { most_pages: 100, ..plan(HOUR_US, 0) });
    feed(&mut rolling, &golden, |_, _| true);
    let found = rolling.answer().unwrap();
    assert!(found.recorded.held_pages <= 100 && found.recorded.pages > 100);
    assert!(found.outcomes[0].sample_error_bytes > 0.0);
}
