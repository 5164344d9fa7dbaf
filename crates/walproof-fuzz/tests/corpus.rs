//! What fuzzing found worth keeping holds without a fuzzer, too; and damage at random places of real WAL.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../../walproof-wal/tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use support::Golden;
use walproof_fuzz::{strip, TARGETS};
use walproof_wal::PgVersion;

fn folder(part: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(part)
}

fn names(part: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(part)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let part = format!("corpus/{target}");
    let read = |name: String| (name.clone(), fs::read(folder(&part).join(name)).unwrap());
    let inputs: Vec<_> = names(&part).into_iter().map(read).collect();
    assert!(inputs.len() >= 20, "{target}: {}", inputs.len());
    inputs
}

/// Each target is a program, and has a corpus; the program is one line, so that a test calls what the fuzzer calls.
#[test]
fn every_target_is_a_program_with_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("corpus"), targets);
    let programs: BTreeSet<String> = targets.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names("fuzz_targets"), programs);
    for name in &targets {
        let program = fs::read_to_string(folder("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        let line = format!("libfuzzer_sys::fuzz_target!(|bytes: &[u8]| walproof_fuzz::{name}(bytes));");
        assert_eq!(program, format!("#![no_main]\n{line}\n"));
    }
}

#[test]
fn every_target_survives_its_corpus() {
    for (target, check) in TARGETS {
        for (name, input) in corpus(target) {
            let survived = std::panic::catch_unwind(|| check(&input));
            assert!(survived.is_ok(), "{target}: {name}");
        }
    }
}

/// That of the decoder is one of segments and of records.
#[test]
fn stripping_survives_the_decoder_s_corpus() {
    for (shape, target) in [(0, "page"), (1, "record")] {
        for (_, input) in corpus(target) {
            strip(&[&[shape], input.as_slice()].concat());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn stripping_survives_damage(
        version in 0..PgVersion::ALL.len(),
        which in 0..8usize,
        damage in prop::collection::vec((0..60_000usize, any::<u8>()), 0..6),
        length in 1..60_000usize,
    ) {
        let golden = Golden::load(PgVersion::ALL[version]);
        let segment = &golden.segments[which % golden.segments.len()].1;
        let mut bytes = segment[..60_000].to_vec();
        // As the segment of the address that the check expects.
        for (number, page) in bytes.chunks_mut(8192).enumerate() {
            if page.len() >= 16 {
                page[8..16].copy_from_slice(&((1u64 << 20) + number as u64 * 8192).to_le_bytes());
            }
        }
        for (at, value) in damage {
            bytes[at] = value;
        }
        bytes.truncate(length);
        strip(&[&[4], bytes.as_slice()].concat());
    }

    #[test]
    fn stripping_survives_any_record(
        version in any::<u8>(), rmgr in 0..24u8, info in any::<u8>(), content in prop::collection::vec(any::<u8>(), 0..400),
        main in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        strip(&[&[1, version, rmgr, info], content.as_slice()].concat());
        let length = main.len() as u8;
        strip(&[&[3, version, rmgr, info, 255, length], main.as_slice()].concat());
    }
}
