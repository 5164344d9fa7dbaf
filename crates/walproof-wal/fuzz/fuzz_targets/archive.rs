//! Any bytes as a compressed segment: what no decompressor can make sense of, and what unpacks to damage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walproof_wal::{Range, Reader, SegmentName, Segments};

/// How each format begins, so that the fuzzer need not find that out.
const BEGINNINGS: [&[u8]; 6] = [
    &[0x1F, 0x8B, 8],
    &[0x04, 0x22, 0x4D, 0x18],
    &[0x28, 0xB5, 0x2F, 0xFD],
    &[0xFD, b'7', b'z', b'X', b'Z', 0],
    &[0x5D, 0, 0],
    b"BZh",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut packed = BEGINNINGS[usize::from(*choice) % BEGINNINGS.len()].to_vec();
    packed.extend_from_slice(rest);
    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, packed)]);
    let Ok(mut reader) = Reader::open(segments, Range::default()) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.end > record.lsn);
    }
    assert_eq!(reader.accounting().total(), reader.end_lsn() - reader.first_lsn());
});
