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

/// LZ4 frames, one after the other. The library ends quietly where a file breaks off between two blocks, so the end
/// of the last frame is looked for.
struct Lz4Frames<R: BufRead> {
    frames: FrameDecoder<R>,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(input: R) -> Lz4Frames<R> {
        Lz4Frames { frames: FrameDecoder::new(input) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.frames.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.frames.get_mut().fill_buf()?.is_empty() {
                return Ok(count);
            }
        }
    }
}
