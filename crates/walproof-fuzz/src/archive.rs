//! Compressed segments: any bytes after the mark of a format, and any bytes packed and unpacked again.

use std::io::{Read, Write};

use walproof_wal::{SegmentName, Segments};

use crate::page::read;

/// How each format begins, so that the fuzzer need not find that out.
const BEGINNINGS: [&[u8]; 6] = [
    &[0x1F, 0x8B, 8],
    &[0x04, 0x22, 0x4D, 0x18],
    &[0x28, 0xB5, 0x2F, 0xFD],
    &[0xFD, b'7', b'z', b'X', b'Z', 0],
    &[0x5D, 0, 0],
    b"BZh",
];
/// From this first byte on, what follows is packed here.
const PACKED: u8 = 0xF0;

/// The first byte chooses the format. What is no archive is an error, not a panic; what was packed comes back.
pub fn archive(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if *choice >= PACKED {
        let packed = pack(*choice - PACKED, rest);
        assert!(packed.as_ref().is_ok_and(|packed| unpack(packed.clone()) == rest), "{choice}");
        return;
    }
    let begin = BEGINNINGS.get(usize::from(*choice) % BEGINNINGS.len()).copied().unwrap_or_default();
    read([begin, rest].concat());
}

/// As that many-th format.
pub(crate) fn pack(format: u8, plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    match format % 6 {
        0 => {
            let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
            encoder.write_all(plain)?;
            encoder.finish()?;
        }
        1 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut packed);
            encoder.write_all(plain)?;
            encoder.finish()?;
        }
        2 => zstd::stream::copy_encode(plain, &mut packed, 1)?,
        3 => {
            liblzma::read::XzEncoder::new(plain, 0).read_to_end(&mut packed)?;
        }
        4 => {
            let options = liblzma::stream::LzmaOptions::new_preset(0)?;
            let stream = liblzma::stream::Stream::new_lzma_encoder(&options)?;
            liblzma::read::XzEncoder::new_stream(plain, stream).read_to_end(&mut packed)?;
        }
        _ => {
            bzip2::read::BzEncoder::new(plain, bzip2::Compression::fast()).read_to_end(&mut packed)?;
        }
    }
    Ok(packed)
}

fn unpack(packed: Vec<u8>) -> Vec<u8> {
    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, packed)]);
    let (mut unpacked, mut piece) = (Vec::new(), [0; 4096]);
    if let Ok(mut file) = segments.open(name) {
        while let Ok(count @ 1..) = file.fill(&mut piece) {
            unpacked.extend_from_slice(piece.get(..count).unwrap_or_default());
        }
    }
    unpacked
}
