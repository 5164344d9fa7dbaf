//! Opening a file whatever it was compressed with, told from its first bytes: Barman keeps the plain name.
//!
//! Everything is decompressed as it is read and no further than the decoder asks, so a file that would unpack to
//! more than its segment costs no more than the segment.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

const READ_BUFFER: usize = 128 << 10;
/// Largest window that is believed: what zstd allows without --long, and ample for files of segment size.
const LZMA_MEMORY: u64 = 256 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Gzip,
    Lz4,
    Zstd,
    Xz,
    /// The older format of LZMA, without checksums: WAL-G's `.lzma`.
    Lzma,
    Bzip2,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Gzip => "gzip",
            Format::Lz4 => "lz4",
            Format::Zstd => "zstd",
            Format::Xz => "xz",
            Format::Lzma => "lzma",
            Format::Bzip2 => "bzip2",
        })
    }
}

impl Format {
    /// The format that begins so; None for plain WAL, and for anything else.
    pub(super) fn of(first: &[u8]) -> Option<Format> {
        let formats: [(&[u8], Format); 6] = [
            (&[0x1F, 0x8B], Format::Gzip),
            (&[0x04, 0x22, 0x4D, 0x18], Format::Lz4),
            (&[0x28, 0xB5, 0x2F, 0xFD], Format::Zstd),
            (&[0xFD, b'7', b'z', b'X', b'Z', 0x00], Format::Xz),
            (&[0x5D, 0x00, 0x00], Format::Lzma),
            (b"BZh", Format::Bzip2),
        ];
        formats.into_iter().find_map(|(begin, format)| first.starts_with(begin).then_some(format))
    }
}

/// What a file turned out to be.
pub(super) enum Opened {
    Plain(File),
    Compressed(Format, Box<dyn Read + Send + Sync>),
    /// Something that is known and not read, with its name.
    Refused(&'static str),
}

/// Opens a file and looks at its first bytes.
pub(super) fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let mut reader = BufReader::with_capacity(READ_BUFFER, file);
    let first = reader.fill_buf()?;
    if first.starts_with(b"Salted__") {
        return Ok(Opened::Refused("encrypted"));
    }
    match Format::of(first) {
        Some(format) => Ok(Opened::Compressed(format, decoder(format, reader)?)),
        None if path.extension().is_some_and(|ending| ending == "br") => {
            Ok(Opened::Refused("compressed with brotli"))
        }
        None => {
            // Plain WAL is read in larger pieces, without a second buffer.
            let mut file = reader.into_inner();
            io::Seek::rewind(&mut file)?;
            Ok(Opened::Plain(file))
        }
    }
}

/// A decompressor; several streams in one file are read one after the other.
pub(super) fn decoder(
    format: Format,
    input: impl BufRead + Send + Sync + 'static,
) -> io::Result<Box<dyn Read + Send + Sync>> {
    Ok(match format {
        Format::Gzip => Box::new(MultiGzDecoder::new(input)),
        Format::Lz4 => Box::new(Lz4Frames::new(input)),
        Format::Zstd => Box::new(ZstdDecoder::with_buffer(input)?),
        Format::Xz => Box::new(XzDecoder::new_multi_decoder(input)),
        Format::Lzma => {
            let stream = Stream::new_lzma_decoder(LZMA_MEMORY).map_err(io::Error::other)?;
            Box::new(XzDecoder::new_stream(input, stream))
        }
        Format::Bzip2 => Box::new(MultiBzDecoder::new(input)),
    })
}

/// LZ4 frames, one after the other, each with a decoder of its own: the library's panics at a second frame whose
/// blocks are larger than those of the first (found by fuzzing). Where a file breaks off between two blocks the
/// library ends quietly; the length of a segment tells.
struct Lz4Frames<R: BufRead> {
    /// Always there, but while one frame is exchanged for the next.
    frame: Option<FrameDecoder<R>>,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(input: R) -> Lz4Frames<R> {
        Lz4Frames { frame: Some(FrameDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let count = frame.read(buffer)?;
            if count > 0 || buffer.is_empty() || frame.get_mut().fill_buf()?.is_empty() {
                return Ok(count);
            }
            self.frame = self.frame.take().map(|ended| FrameDecoder::new(ended.into_inner()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Frames of 64 kB, 4 MB and 256 kB blocks behind each other.
    #[test]
    fn lz4_frames_of_several_block_sizes() {
        use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
        use std::io::Write;

        let mut packed = Vec::new();
        let mut plain = Vec::new();
        for (size, byte) in [(BlockSize::Max64KB, 1), (BlockSize::Max4MB, 2), (BlockSize::Max256KB, 3)] {
            let part = vec![byte; 300_000];
            let mut encoder = FrameEncoder::with_frame_info(FrameInfo::new().block_size(size), &mut packed);
            encoder.write_all(&part).unwrap();
            encoder.finish().unwrap();
            plain.extend(part);
        }
        let mut unpacked = Vec::new();
        Lz4Frames::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
    }
}
