//! Full-page images taken out of the recording and compressed by each method, as a server would.

use walproof_wal::{named_fields, Compression, Image, BLOCK_SIZE};

use crate::pglz::Pglz;

/// `ZSTD_CLEVEL_DEFAULT`.
const ZSTD_LEVEL: i32 = 3;
/// `SizeOfXLogRecordBlockCompressHeader`: the length of the hole, which only compressed images state.
pub(crate) const HOLE_LENGTH_BYTES: u16 = 2;

/// Bytes of one page's image under each method, in the order of [`Compression::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) plain: u16,
    pub(crate) compressed: [u16; 3],
}

named_fields! {
    /// What each method took, in total.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct MethodSample {
        /// Bytes of the images in the WAL, without their headers.
        pub bytes: u64,
        /// Nanoseconds of compressing, as the clock said.
        pub nanoseconds: u64,
        /// Standard error, as a share, of what all images of the recording would take, that comes of compressing
        /// some of them; None without any.
        pub error: Option<f64>,
    }
}

/// Compresses images; remembers how long it took.
pub(crate) struct Compressor<'a> {
    clock: &'a (dyn Fn() -> u64 + Sync),
    pglz: Pglz,
    page: Vec<u8>,
    nanoseconds: [u64; 3],
}

impl<'a> Compressor<'a> {
    pub(crate) fn new(clock: &'a (dyn Fn() -> u64 + Sync)) -> Compressor<'a> {
        Compressor { clock, pglz: Pglz::new(), page: Vec::new(), nanoseconds: [0; 3] }
    }

    /// Nanoseconds by method, so far.
    pub(crate) fn nanoseconds(&self) -> [u64; 3] {
        self.nanoseconds
    }

    /// Adds what compressing took before.
    pub(crate) fn add_nanoseconds(&mut self, before: [u64; 3]) {
        for (spent, more) in self.nanoseconds.iter_mut().zip(before) {
            *spent = spent.saturating_add(more);
        }
    }

    /// The page of the last image that was compressed, without its hole.
    pub(crate) fn page(&self) -> &[u8] {
        &self.page
    }

    /// The lengths of the image with these bytes; None when they cannot be decompressed.
    pub(crate) fn lengths(&mut self, image: &Image, bytes: &[u8]) -> Option<Lengths> {
        let plain = image.uncompressed_length();
        self.page.clear();
        match image.compression {
            None => self.page.extend_from_slice(bytes),
            Some(Compression::Pglz) => decompress_pglz(bytes, usize::from(plain), &mut self.page)?,
            Some(Compression::Lz4) => {
                self.page = lz4_flex::block::decompress(bytes, usize::from(plain)).ok()?;
            }
            Some(Compression::Zstd) => {
                self.page = zstd::bulk::decompress(bytes, usize::from(BLOCK_SIZE)).ok()?;
            }
        }
        if self.page.len() != usize::from(plain) {
            return None;
        }
        let extra = if image.hole_length > 0 { HOLE_LENGTH_BYTES } else { 0 };
        let mut compressed = [plain; 3];
        for (method, (length, spent)) in
            Compression::ALL.into_iter().zip(compressed.iter_mut().zip(&mut self.nanoseconds))
        {
            let before = (self.clock)();
            let found = match method {
                Compression::Pglz => self.pglz.compressed_length(&self.page),
                Compression::Lz4 => Some(lz4_flex::block::compress(&self.page).len()),
                Compression::Zstd => {
                    zstd::bulk::compress(&self.page, ZSTD_LEVEL).ok().map(|bytes| bytes.len())
                }
            };
            *spent += (self.clock)().saturating_sub(before);
            // XLogCompressBackupBlock keeps the page as it is unless compressing saves bytes.
            if let Some(found) = found.and_then(|found| u16::try_from(found).ok()) {
                if found.saturating_add(extra) < plain {
                    *length = found;
                }
            }
        }
        Some(Lengths { plain, compressed })
    }
}

/// Undoes PostgreSQL's own compression (`pglz_decompress`); None for damage.
pub(crate) fn decompress_pglz(source: &[u8], length: usize, page: &mut Vec<u8>) -> Option<()> {
    let mut bytes = source.iter().copied();
    while page.len() < length {
        let Some(mut control) = bytes.next() else { break };
        for _ in 0..8 {
            if page.len() >= length {
                break;
            }
            let Some(first) = bytes.next() else { return Some(()) };
            if control & 1 == 0 {
                page.push(first);
            } else {
                let second = bytes.next()?;
                let back = usize::from(first & 0xF0) << 4 | usize::from(second);
                let mut count = usize::from(first & 0x0F) + 3;
                if count == 18 {
                    count += usize::from(bytes.next()?);
                }
                let from = page.len().checked_sub(back).filter(|_| back > 0)?;
                for offset in 0..count.min(length - page.len()) {
                    page.push(*page.get(from + offset)?);
                }
            }
            control >>= 1;
        }
    }
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::io::Read;
    use walproof_wal::{Range, Reader, SegmentName, Segments};

    /// Images of golden WAL: as stored by the server, and as they would be stored here.
    fn images(version: u32) -> Vec<(Image, Option<Lengths>)> {
        let folder = format!("{}/../../tests/golden/wal/{version}", env!("CARGO_MANIFEST_DIR"));
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Some(name) = path.file_stem().and_then(|name| SegmentName::parse(name.to_str()?)) else {
                continue;
            };
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            segments.push((name, bytes));
        }
        let mut reader = Reader::open(Segments::from_memory(segments), Range::default()).unwrap();
        let clock = || 0;
        let mut compressor = Compressor::new(&clock);
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            for block in record.blocks {
                if let Some(image) = block.image {
                    found.push((image, compressor.lengths(&image, record.image(block))));
                }
            }
        }
        found
    }

    #[test]
    fn pglz_makes_the_server_s_bytes() {
        let mut compared = 0;
        for version in 13..=19 {
            for (image, lengths) in images(version) {
                let lengths = lengths.unwrap();
                assert_eq!(lengths.plain, image.uncompressed_length());
                if image.compression == Some(Compression::Pglz) {
                    assert_eq!(lengths.compressed[0], image.length, "{version}: {image:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 500, "{compared}");
    }

    #[test]
    fn damaged_images_are_none() {
        let clock = || 0;
        let mut compressor = Compressor::new(&clock);
        for compression in Compression::ALL {
            let image = Image {
                length: 9,
                hole_offset: 0,
                hole_length: 0,
                compression: Some(compression),
                apply: true,
            };
            for bytes in [&[][..], &[0xFF; 9], &[1, 0, 0], &[0x01, 0xFF, 0xFF, 0xFF]] {
                assert_eq!(compressor.lengths(&image, bytes), None, "{compression} {bytes:?}");
            }
        }
    }
}
