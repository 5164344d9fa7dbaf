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

use support::Golden;
use walproof_wal::{Compression, PgVersion};
use walproof_whatif::{simulate, ImageCompression, Request, Target};

#[test]
fn the_rule_explains_what_servers_did() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let found = simulate(golden.segments(), golden.range(), &Request::new(&[Target::default()])).unwrap();
        let agreement = found.recorded.agreement;
        let tried = agreement.images + agreement.bare + agreement.unexplained + agreement.missing;
        assert!(tried > 500, "{version}: {agreement:?}");
        assert!((agreement.unexplained + agreement.missing) * 100 <= tried, "{version}: {agreement:?}");
    }
}

#[test]
fn fewer_checkpoints_never_write_more_images() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let with = |size| Target { max_wal_size_mb: size, checkpoint_timeout_s: None, ..Target::default() };
        let targets = [with(Some(2)), with(Some(4)), with(Some(64)), with(None)];
        let found = simulate(golden.segments(), golden.range(), &Request::new(&targets)).unwrap();
        let images: Vec<u64> = found.outcomes.iter().map(|outcome| outcome.images).collect();
        assert!(images.is_sorted_by(|count, other| count >= other), "{version}: {images:?}");
        assert!(found.outcomes.iter().all(|outcome| outcome.wal_bytes >= outcome.base_bytes));
    }
}

#[test]
fn without_full_page_writes_only_forced_images_are_left() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let targets = [Target::default(), Target { full_page_writes: false, ..Target::default() }];
        let found = simulate(golden.segments(), golden.range(), &Request::new(&targets)).unwrap();
        let [on, off] = found.outcomes[..] else { panic!() };
        assert!(off.images < on.images && off.wal_bytes < on.wal_bytes, "{version}: {on:?} {off:?}");
    }
}

#[test]
fn methods_keep_their_order() {
    let golden = Golden::load(PgVersion::V15);
    let with = |compression| Target { compression, ..Target::default() };
    let targets = [
        with(ImageCompression::Off),
        with(ImageCompression::Method(Compression::Lz4)),
        with(ImageCompression::Method(Compression::Zstd)),
    ];
    let found = simulate(golden.segments(), golden.range(), &Request::new(&targets)).unwrap();
    let bytes: Vec<u64> = found.outcomes.iter().map(|outcome| outcome.image_bytes).collect();
    assert!(bytes[0] > bytes[1] && bytes[1] > bytes[2], "{bytes:?}");
    assert_eq!(found.outcomes[0].images, found.outcomes[2].images);
}

#[test]
fn servers_that_log_no_hint_bits_write_less_where_they_were_logged() {
    for version in PgVersion::ALL {
        let golden = Golden::load(version);
        let targets = [Target::default(), Target { hint_records: false, ..Target::default() }];
        let found = simulate(golden.segments(), golden.range(), &Request::new(&targets)).unwrap();
        let [on, off] = found.outcomes[..] else { panic!() };
        if found.recorded.has_hint_records {
            assert!(off.images < on.images && off.wal_bytes < on.wal_bytes, "{version}: {on:?} {off:?}");
            assert!(
                on.images - off.images <= 2 * found.recorded.hint_images + 100,
                "{version}: {on:?} {off:?}"
            );
        } else {
            assert_eq!((off.images, off.wal_bytes), (on.images, on.wal_bytes), "{version}");
        }
    }
}

#[test]
fn times_from_elsewhere_begin_checkpoints() {
    let golden = Golden::load(PgVersion::V16);
    let targets = [Target { max_wal_size_mb: None, checkpoint_timeout_s: Some(60), ..Target::default() }];
    let plain = simulate(golden.segments(), golden.range(), &Request::new(&targets)).unwrap();
    // The recording took less than a minute; said to have taken ten, it holds checkpoints.
    assert_eq!(plain.outcomes[0].by_time, 0);
    let times = [(plain.start, 0), (plain.end, 600_000_000)];
    let request = Request { times: &times, ..Request::new(&targets) };
    let found = simulate(golden.segments(), golden.range(), &request).unwrap();
    // Each shutdown in the recording begins a cycle anew.
    let shutdowns =
        found.recorded.checkpoints.iter().filter(|checkpoint| checkpoint.is_shutdown).count() as u64;
    assert!((10 - 2 * shutdowns..=10).contains(&found.outcomes[0].by_time), "{:?}", found.outcomes[0]);
    assert_eq!(found.recorded.last_time_us, Some(600_000_000));
}
