//! Opening a file whatever it was compressed with, told from its first bytes: Barman keeps the plain name.
//!
//! Everything is decompressed as it is read and no further than the decoder asks, so a file that would unpack to
//! more than its segment costs no more than the segment.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use brotli_decompressor::Decompressor as BrotliDecoder;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{Error as LzmaError, Stream, CONCATENATED};
use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::cipher::{self, Decrypted, Locked};
use super::object::{ObjectFile, Place};
use super::regular::{self, Regular, Stoppable};
use crate::watch::Watch;

const READ_BUFFER: usize = 128 << 10;
/// Enough to tell formats apart.
const FIRST_BYTES: usize = 8;
/// The largest window in a header that is believed, in bits: 128 MB, which zstd allows without --long. A
/// segment has 1 GB at most, 16 MB mostly.
const WINDOW_BITS: u32 = 27;
/// The same for xz and lzma, whose limit is one of all memory: `xz -9` needs 65 MB.
const LZMA_MEMORY: u64 = 256 << 20;
/// zstd's words for a window that is larger.
const ZSTD_REFUSED: &str = "Frame requires too much memory for decoding";

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gzip,
    Lz4,
    Zstd,
    Xz,
    /// The older format of LZMA, without checksums: WAL-G's `.lzma`.
    Lzma,
    Bzip2,
    /// This format has no mark of its own: only the name tells.
    Brotli,
    /// Encrypted, and not compressed.
    Aes,
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
            Format::Brotli => "brotli",
            Format::Aes => "aes-256-cbc",
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
    PlainObject(ObjectFile),
    Compressed(Format, Box<dyn Read + Send + Sync>),
    /// Encrypted, and why it stays so.
    Encrypted(Locked),
    /// Something that is not a file, with the name of what it is.
    Special(&'static str),
}

/// How what begins so is compressed; None for plain WAL.
fn format(first: &[u8], path: &Path) -> Option<Format> {
    let is_brotli = path.extension().is_some_and(|ending| ending == "br");
    Format::of(first).or(is_brotli.then_some(Format::Brotli))
}

/// Opens a file and looks at its first bytes.
pub(super) fn open(place: &Place, watch: &Watch) -> io::Result<Opened> {
    match place {
        Place::File(path) => open_file(path, watch),
        Place::Object(object) => open_object(ObjectFile::new(object.clone(), watch), place),
    }
}

/// Opens an object whose beginning alone is of interest.
pub(super) fn open_head(place: &Place, watch: &Watch) -> io::Result<Opened> {
    match place {
        Place::File(path) => open_file(path, watch),
        Place::Object(object) => open_object(ObjectFile::head(object.clone(), watch), place),
    }
}

fn open_object(mut file: ObjectFile, place: &Place) -> io::Result<Opened> {
    let first = file.fill_buf()?;
    if cipher::is_encrypted(first) {
        return match cipher::pass_of(place) {
            Ok(pass) => open_encrypted(Decrypted::new(file, &pass)?),
            Err(locked) => Ok(Opened::Encrypted(locked)),
        };
    }
    Ok(match format(first, place.path()) {
        Some(format) => Opened::Compressed(format, decoder(format, file)?),
        None => Opened::PlainObject(file),
    })
}

fn open_file(path: &Path, watch: &Watch) -> io::Result<Opened> {
    let file = match regular::open(path)? {
        Regular::File(file) => file,
        Regular::Special(what) => return Ok(Opened::Special(what)),
    };
    let mut first = [0; FIRST_BYTES];
    let length = file.read_at(&mut first, 0)?;
    let first = first.get(..length).unwrap_or_default();
    if cipher::is_encrypted(first) {
        let input = Stoppable { input: file, watch: watch.clone() };
        let input = BufReader::with_capacity(READ_BUFFER, input);
        return match cipher::pass_of(&Place::File(path.to_owned())) {
            Ok(pass) => open_encrypted(Decrypted::new(input, &pass)?),
            Err(locked) => Ok(Opened::Encrypted(locked)),
        };
    }
    match format(first, path) {
        Some(format) => {
            let input = Stoppable { input: file, watch: watch.clone() };
            let input = BufReader::with_capacity(READ_BUFFER, input);
            Ok(Opened::Compressed(format, decoder(format, input)?))
        }
        // Plain WAL is read in larger pieces, without a second buffer.
        None => Ok(Opened::Plain(file)),
    }
}

/// pgBackRest compresses before it encrypts.
fn open_encrypted(plain: impl Read + Send + Sync + 'static) -> io::Result<Opened> {
    let mut plain = BufReader::with_capacity(READ_BUFFER, plain);
    // What cannot be decrypted is told to whoever reads it.
    let format = plain.fill_buf().ok().and_then(Format::of);
    Ok(match format {
        Some(format) => Opened::Compressed(format, decoder(format, plain)?),
        None => Opened::Compressed(Format::Aes, Box::new(plain)),
    })
}

/// A decompressor; several streams in one file are read one after the other. The blocks of gzip, lz4 and bzip2 are 8 MB at
/// most; the windows of the others are as large as a header says, and limited here.
pub(super) fn decoder(
    format: Format,
    mut input: impl BufRead + Send + Sync + 'static,
) -> io::Result<Box<dyn Read + Send + Sync>> {
    Ok(match format {
        Format::Gzip => Box::new(MultiGzDecoder::new(input)),
        Format::Lz4 => Box::new(Lz4Frames::new(input)),
        Format::Zstd => {
            let mut decoder = ZstdDecoder::with_buffer(input)?;
            decoder.window_log_max(WINDOW_BITS)?;
            Box::new(Bounded(decoder))
        }
        Format::Xz => {
            let stream = Stream::new_stream_decoder(LZMA_MEMORY, CONCATENATED)?;
            Box::new(Bounded(XzDecoder::new_stream(input, stream)))
        }
        Format::Lzma => {
            let stream = Stream::new_lzma_decoder(LZMA_MEMORY)?;
            Box::new(Bounded(XzDecoder::new_stream(input, stream)))
        }
        Format::Bzip2 => Box::new(MultiBzDecoder::new(input)),
        Format::Brotli if brotli_window_bits(input.fill_buf()?) > WINDOW_BITS => Box::new(TooLarge),
        Format::Brotli => Box::new(BrotliDecoder::new(input, READ_BUFFER)),
        Format::Aes => Box::new(input),
    })
}

/// The window of a brotli stream. Standard ones end at 24 bits; what begins with the mark of "large window brotli" says
/// up to 30, and the decoder would allocate that.
fn brotli_window_bits(first: &[u8]) -> u32 {
    match first {
        [0x11, bits, ..] => u32::from(bits & 0x3F),
        _ => 24,
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "its header asks for too much memory")
}

/// A decoder that refuses large windows, with one message for it.
struct Bounded<D>(D);

impl<D: Read> Read for Bounded<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let is_refusal = error.get_ref().is_some_and(|inner| {
                matches!(inner.downcast_ref(), Some(LzmaError::MemLimit)) || inner.to_string() == ZSTD_REFUSED
            });
            if is_refusal {
                too_large()
            } else {
                error
            }
        })
    }
}

/// Stands in for a decoder that would not refuse.
struct TooLarge;

impl Read for TooLarge {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(too_large())
    }
}

/// Whether the file ends as its last LZ4 frame has to: with a block of length 0, and the checksum if there is one.
/// The library does not ask for it, `lz4 -d` does.
pub(crate) fn lz4_is_closed(place: &Place, watch: &Watch) -> io::Result<bool> {
    match place {
        Place::File(path) => {
            let Regular::File(file) = regular::open(path)? else { return Ok(false) };
            let mut file = BufReader::with_capacity(READ_BUFFER, file);
            if !cipher::is_encrypted(file.fill_buf()?) {
                return ends(file).map(is_closed);
            }
            let pass = cipher::pass_of(place).map_err(|locked| io::Error::other(locked.reason()))?;
            ends_of_stream(Decrypted::new(file, &pass)?).map(is_closed)
        }
        Place::Object(object) => {
            let mut file = ObjectFile::new(object.clone(), watch);
            if !cipher::is_encrypted(file.fill_buf()?) {
                return ends(file).map(is_closed);
            }
            let pass = cipher::pass_of(place).map_err(|locked| io::Error::other(locked.reason()))?;
            ends_of_stream(Decrypted::new(file, &pass)?).map(is_closed)
        }
    }
}

/// The first and the last bytes.
type Ends = ([u8; 5], [u8; 8]);

fn ends(mut file: impl Read + Seek) -> io::Result<Ends> {
    let (mut first, mut last) = ([0; 5], [0; 8]);
    file.read_exact(&mut first)?;
    file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut last)?;
    Ok((first, last))
}

/// The same of what can only be read forwards.
fn ends_of_stream(mut plain: impl Read) -> io::Result<Ends> {
    let mut first = [0; 5];
    plain.read_exact(&mut first)?;
    let mut piece = [0; 8 << 10];
    let mut end = Vec::new();
    loop {
        let count = plain.read(&mut piece)?;
        end.extend_from_slice(piece.get(..count).unwrap_or_default());
        end.drain(..end.len().saturating_sub(size_of::<[u8; 8]>()));
        if count == 0 {
            break;
        }
    }
    let last = end.try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
    Ok((first, last))
}

fn is_closed((first, last): Ends) -> bool {
    let [.., flags] = first;
    let has_checksum = flags & 0x04 != 0;
    let mark = if has_checksum { last.first_chunk::<4>() } else { last.last_chunk::<4>() };
    mark == Some(&[0; 4])
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

    /// Frames of 64 kB, 4 MB and 256 kB blocks one after the other.
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
