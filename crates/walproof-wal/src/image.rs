//! Full-page images: copies of blocks that a record carries so that recovery need not trust the block on disk.

use std::fmt;

use crate::version::PgVersion;

/// Bytes in a block of a relation. Servers built with another `--with-blocksize` cannot be told from their
/// WAL; their images fail the length checks.
pub const BLOCK_SIZE: u16 = 8192;

const HAS_HOLE: u8 = 0x01;

/// How an image was compressed (`wal_compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// PostgreSQL's own LZ; the only method before 15.
    Pglz,
    /// LZ4, from 15.
    Lz4,
    /// Zstandard, from 15.
    Zstd,
}

impl Compression {
    /// Every method, in the order of the server's flags.
    pub const ALL: [Compression; 3] = [Compression::Pglz, Compression::Lz4, Compression::Zstd];

    /// As `wal_compression` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Compression::Pglz => "pglz",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The header of a full-page image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Bytes of the image in the record.
    pub length: u16,
    /// Offset in the block of the unused part that was left out.
    pub hole_offset: u16,
    /// Bytes of the unused part; 0 when there is none.
    pub hole_length: u16,
    /// None when the image is not compressed.
    pub compression: Option<Compression>,
    /// Whether recovery restores it. An image without this flag is there for `wal_consistency_checking` only.
    pub apply: bool,
}

impl Image {
    /// Bytes that the image would take without compression.
    #[must_use]
    pub fn uncompressed_length(&self) -> u16 {
        match self.compression {
            None => self.length,
            Some(_) => BLOCK_SIZE.saturating_sub(self.hole_length),
        }
    }
}

/// The flags of `bimg_info`, whose bits changed with 15 (src/include/access/xlogrecord.h):
///
/// ```text
///         0x01      0x02           0x04           0x08  0x10
/// 13, 14  HAS_HOLE  IS_COMPRESSED  APPLY
/// 15..18  HAS_HOLE  APPLY          COMPRESS_PGLZ  _LZ4  _ZSTD
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageFlags {
    pub(crate) has_hole: bool,
    pub(crate) apply: bool,
    pub(crate) compression: Option<Compression>,
}

impl ImageFlags {
    pub(crate) fn parse(info: u8, version: PgVersion) -> ImageFlags {
        let is_set = |bit: u8| info & bit != 0;
        let (apply, compression) = if version < PgVersion::V15 {
            (is_set(0x04), is_set(0x02).then_some(Compression::Pglz))
        } else {
            let method = [(0x04, Compression::Pglz), (0x08, Compression::Lz4), (0x10, Compression::Zstd)]
                .into_iter()
                .find_map(|(bit, method)| is_set(bit).then_some(method));
            (is_set(0x02), method)
        };
        ImageFlags { has_hole: is_set(HAS_HOLE), apply, compression }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bits_mean_other_things_before_15() {
        let cases = [
            // info, before 15: (apply, compression), from 15: (apply, compression)
            (0x01, (false, None), (false, None)),
            (0x02, (false, Some(Compression::Pglz)), (true, None)),
            (0x04, (true, None), (false, Some(Compression::Pglz))),
            (0x06, (true, Some(Compression::Pglz)), (true, Some(Compression::Pglz))),
            (0x0A, (false, Some(Compression::Pglz)), (true, Some(Compression::Lz4))),
            (0x13, (false, Some(Compression::Pglz)), (true, Some(Compression::Zstd))),
        ];
        for (info, before, after) in cases {
            for version in PgVersion::ALL {
                let expected = if version < PgVersion::V15 { before } else { after };
                let flags = ImageFlags::parse(info, version);
                assert_eq!((flags.apply, flags.compression), expected, "{info:#x} in {version}");
                assert_eq!(flags.has_hole, info & 1 != 0);
            }
        }
    }
}
