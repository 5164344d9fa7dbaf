//! The parts of a record after its header: block references with images and data, and the main data.
//!
//! ```text
//! a record: header (24 bytes) | fragment headers ... | image and data of each block ... | main data
//!
//! fragment header, by its first byte (src/include/access/xlogrecord.h):
//!   0..=32  block reference
//!           fork_flags u8   low 4 bits fork, 0x10 has image, 0x20 has data, 0x40 will init, 0x80 same relation
//!           data_length u16
//!           [has image]  length u16, hole_offset u16, bimg_info u8, [compressed and hole] hole_length u16
//!           [not same relation]  tablespace u32, database u32, relfilenumber u32
//!           block u32
//!   252     top-level transaction id u32 (from 14)
//!   253     replication origin u16
//!   254     main data, length u32; always the last
//!   255     main data, length u8; always the last
//! ```

use std::ops::Range;

use crate::bytes::Bytes;
use crate::error::Invalid;
use crate::image::{Image, ImageFlags, BLOCK_SIZE};
use crate::lsn::Lsn;
use crate::record::HEADER_SIZE;
use crate::version::PgVersion;

const MAX_BLOCK_ID: u8 = 32;
const ID_TOPLEVEL_XID: u8 = 252;
const ID_ORIGIN: u8 = 253;
const ID_DATA_LONG: u8 = 254;
const ID_DATA_SHORT: u8 = 255;

const FORK_MASK: u8 = 0x0F;
const HAS_IMAGE: u8 = 0x10;
const HAS_DATA: u8 = 0x20;
const WILL_INIT: u8 = 0x40;
const SAME_REL: u8 = 0x80;

/// A relation's files: what stands in a path such as `base/5/16384`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelFileLocator {
    /// OID of the tablespace.
    pub tablespace: u32,
    /// OID of the database; 0 for shared catalogs.
    pub database: u32,
    /// The relation's file number in that database.
    pub relation: u32,
}

/// A block that a record changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRef {
    /// Number of the reference in its record.
    pub id: u8,
    /// The relation's files.
    pub relation: RelFileLocator,
    /// Fork of the relation: 0 main, 1 free space map, 2 visibility map, 3 init.
    pub fork: u8,
    /// Block number in the fork.
    pub block: u32,
    /// Whether replay builds the block from nothing, so that no image is needed.
    pub will_init: bool,
    /// The full-page image, if the record carries one.
    pub image: Option<Image>,
    /// Bytes of data that belong to this block.
    pub data_length: u16,
    /// Offset in the record of the image; the data follows it.
    payload: u32,
    /// Bytes of the reference's own header.
    header_length: u8,
}

impl BlockRef {
    /// Bytes of the record that are there for this block: the reference's header, the image, the data.
    #[must_use]
    pub fn wal_bytes(&self) -> u32 {
        let image = self.image.map_or(0, |image| u32::from(image.length));
        u32::from(self.header_length) + image + u32::from(self.data_length)
    }

    /// Where the image's bytes are in the record; empty without an image.
    pub(crate) fn image_range(&self) -> Range<usize> {
        let start = self.payload as usize;
        start..start + image_length(self)
    }

    /// Where the block's data is in the record; empty without data.
    pub(crate) fn data_range(&self) -> Range<usize> {
        let start = self.image_range().end;
        start..start + usize::from(self.data_length)
    }
}

/// The block references of a record, in a place of fixed size that is reused for the next record.
#[derive(Clone, Debug)]
pub(crate) struct BlockRefs {
    list: [BlockRef; MAX_BLOCK_ID as usize + 1],
    count: usize,
}

impl BlockRefs {
    pub(crate) fn new() -> BlockRefs {
        BlockRefs { list: [BlockRef::default(); MAX_BLOCK_ID as usize + 1], count: 0 }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[BlockRef] {
        self.list.get(..self.count).unwrap_or_default()
    }

    fn as_mut_slice(&mut self) -> &mut [BlockRef] {
        self.list.get_mut(..self.count).unwrap_or_default()
    }

    /// Ids ascend from 0 to `MAX_BLOCK_ID`, so there is room.
    #[inline]
    fn push(&mut self, block: BlockRef) {
        if let Some(slot) = self.list.get_mut(self.count) {
            *slot = block;
            self.count += 1;
        }
    }
}

/// What a record holds in addition to its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragments {
    pub(crate) origin: Option<u16>,
    pub(crate) toplevel_xid: Option<u32>,
    pub(crate) main_data: Range<usize>,
}

/// Takes a whole record (header included) apart, as `DecodeXLogRecord` does. What `blocks` and
/// `fragments` held before is dropped.
#[inline(always)]
pub(crate) fn decode(
    record: &[u8],
    lsn: Lsn,
    version: PgVersion,
    blocks: &mut BlockRefs,
    fragments: &mut Fragments,
) -> Result<(), Invalid> {
    decode_opening(record, record.len(), lsn, version, blocks, fragments)
}

/// As [`decode`], but for a record whose first bytes alone are at hand: everything that stands before images
/// and data.
#[inline(always)]
pub(crate) fn decode_opening(
    opening: &[u8],
    length: usize,
    lsn: Lsn,
    version: PgVersion,
    blocks: &mut BlockRefs,
    fragments: &mut Fragments,
) -> Result<(), Invalid> {
    blocks.count = 0;
    (fragments.origin, fragments.toplevel_xid) = (None, None);
    let short = Invalid::RecordData { lsn };
    let mut bytes = Bytes(opening.get(HEADER_SIZE..).ok_or_else(|| short.clone())?);
    let beyond = length.saturating_sub(opening.len());
    let mut main_length = 0usize;
    let mut data_total = 0usize;
    while bytes.remaining() + beyond > data_total {
        let id = bytes.u8().ok_or_else(|| short.clone())?;
        match id {
            ID_DATA_SHORT => {
                main_length = usize::from(bytes.u8().ok_or_else(|| short.clone())?);
                data_total += main_length;
                break;
            }
            ID_DATA_LONG => {
                main_length = bytes.u32().ok_or_else(|| short.clone())? as usize;
                data_total += main_length;
                break;
            }
            ID_ORIGIN => fragments.origin = Some(bytes.u16().ok_or_else(|| short.clone())?),
            ID_TOPLEVEL_XID if version >= PgVersion::V14 => {
                fragments.toplevel_xid = Some(bytes.u32().ok_or_else(|| short.clone())?);
            }
            0..=MAX_BLOCK_ID => {
                if blocks.as_slice().last().is_some_and(|last| id <= last.id) {
                    return Err(Invalid::BlockIdOrder { lsn, got: id });
                }
                data_total += block_header(id, &mut bytes, lsn, version, blocks)?;
            }
            _ => return Err(Invalid::BlockId { lsn, got: id }),
        }
    }
    if bytes.remaining() + beyond != data_total {
        return Err(short);
    }
    let mut at = opening.len() + beyond - data_total;
    for block in blocks.as_mut_slice() {
        // Records are shorter than 1 GB.
        block.payload = at as u32;
        at = block.data_range().end;
    }
    fragments.main_data = at..at + main_length;
    Ok(())
}

fn image_length(block: &BlockRef) -> usize {
    block.image.map_or(0, |image| usize::from(image.length))
}

/// Reads the header of one block reference into `blocks`; the length of its image and data.
#[inline(always)]
fn block_header(
    id: u8,
    bytes: &mut Bytes<'_>,
    lsn: Lsn,
    version: PgVersion,
    blocks: &mut BlockRefs,
) -> Result<usize, Invalid> {
    let short = || Invalid::RecordData { lsn };
    let before = bytes.remaining();
    let flags = bytes.u8().ok_or_else(short)?;
    let data_length = bytes.u16().ok_or_else(short)?;
    match (flags & HAS_DATA != 0, data_length) {
        (true, 0) => return Err(Invalid::BlockDataMissing { lsn }),
        (false, 1..) => return Err(Invalid::BlockDataUnexpected { lsn, got: data_length }),
        _ => {}
    }
    let image = if flags & HAS_IMAGE != 0 { Some(image_header(bytes, lsn, version)?) } else { None };
    let relation = if flags & SAME_REL == 0 {
        RelFileLocator {
            tablespace: bytes.u32().ok_or_else(short)?,
            database: bytes.u32().ok_or_else(short)?,
            relation: bytes.u32().ok_or_else(short)?,
        }
    } else {
        blocks.as_slice().last().ok_or(Invalid::NoPreviousRelation { lsn })?.relation
    };
    let block = bytes.u32().ok_or_else(short)?;
    // With the id, which was taken before; the longest such header has 27 bytes.
    let header_length = (before - bytes.remaining() + 1) as u8;
    blocks.push(BlockRef {
        id,
        relation,
        fork: flags & FORK_MASK,
        block,
        header_length,
        will_init: flags & WILL_INIT != 0,
        image,
        data_length,
        payload: 0,
    });
    Ok(image.map_or(0, |image| usize::from(image.length)) + usize::from(data_length))
}

/// Reads the header of an image, with the cross-checks of `DecodeXLogRecord`.
fn image_header(bytes: &mut Bytes<'_>, lsn: Lsn, version: PgVersion) -> Result<Image, Invalid> {
    let short = || Invalid::RecordData { lsn };
    let length = bytes.u16().ok_or_else(short)?;
    let hole_offset = bytes.u16().ok_or_else(short)?;
    let flags = ImageFlags::parse(bytes.u8().ok_or_else(short)?, version);
    let hole_length = match (flags.compression, flags.has_hole) {
        (Some(_), true) => bytes.u16().ok_or_else(short)?,
        (Some(_), false) => 0,
        // The server computes this in 16 bits too: an image longer than a block wraps and fails below.
        (None, _) => BLOCK_SIZE.wrapping_sub(length),
    };
    if flags.has_hole && (hole_offset == 0 || hole_length == 0 || length == BLOCK_SIZE) {
        return Err(Invalid::Hole { lsn, hole_offset, hole_length, length });
    }
    if !flags.has_hole && (hole_offset != 0 || hole_length != 0) {
        return Err(Invalid::NoHole { lsn, hole_offset, hole_length });
    }
    if flags.compression.is_some() && length == BLOCK_SIZE {
        return Err(Invalid::Compressed { lsn, length });
    }
    Ok(Image { length, hole_offset, hole_length, compression: flags.compression, apply: flags.apply })
}
