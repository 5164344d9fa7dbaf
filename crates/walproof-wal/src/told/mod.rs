//! Makes WAL again from what is told about its records: where each is, how long it is, what it refers to.
//!
//! A server that lets nobody stream its WAL may still tell of it (`pg_walinspect`). What is made of that has every
//! record in its place with its length, its blocks, its images' lengths and holes, and zeros for contents, so all
//! that reads WAL without contents reads it ([`crate::strip`] keeps the same, and more of main data).
//!
//! Lengths prove the rest: what a record's parts take has to add up to the length that is told of it. Not told, and
//! lost: contents; flags in the low bits of `xl_info`; which files a transaction dropped. Whether a block is made from
//! nothing follows from the operation (`init`).

mod init;

use std::fmt;

use crate::block::RelFileLocator;
use crate::image::{Compression, Image, BLOCK_SIZE};
use crate::lsn::Lsn;
use crate::page::{FIRST_IS_CONTRECORD, LONG_HEADER, LONG_HEADER_SIZE, PAGE_SIZE, SHORT_HEADER_SIZE};
use crate::record::{checksum, ALIGNMENT, HEADER_SIZE};
use crate::rmgr::{Operation, RmgrId};
use crate::version::PgVersion;

const PAGE: u64 = PAGE_SIZE as u64;
const HEAP: [RmgrId; 2] = [RmgrId::HEAP2, RmgrId(10)];
/// An extension's resource manager; its name does not tell which.
const CUSTOM: RmgrId = RmgrId(128);
const ORIGIN_BYTES: usize = 3;
const TOPLEVEL_BYTES: usize = 5;

/// A block reference, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldBlock {
    /// Number of the reference in its record.
    pub id: u8,
    /// The relation's files.
    pub relation: RelFileLocator,
    /// Fork of the relation.
    pub fork: u8,
    /// Block number in the fork.
    pub block: u32,
    /// The full-page image.
    pub image: Option<Image>,
    /// Bytes of data that belong to this block; None where only their sum is known, by the record's length.
    pub data_length: Option<u16>,
}

/// A record, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldRecord<'a> {
    /// Where it begins.
    pub lsn: Lsn,
    /// The record before.
    pub prev: Lsn,
    /// Transaction; 0 for none.
    pub xid: u32,
    /// Name of the resource manager.
    pub rmgr: &'a str,
    /// Name of the operation, without that of the resource manager.
    pub operation: &'a str,
    /// Bytes of the whole record.
    pub total_length: u32,
    /// Bytes of its main data.
    pub main_length: u32,
    /// The blocks it refers to, by id.
    pub blocks: &'a [ToldBlock],
    /// What is known about the beginning of the main data.
    pub main_data: &'a [u8],
}

/// Why no WAL can be made from what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untold {
    /// No such operation in this version.
    Operation(Lsn, String),
    /// The parts take more, or less, than the record's length.
    Length(Lsn, u32, usize),
    /// A record does not begin where the one before ended.
    Hole(Lsn, Lsn),
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untold::Operation(lsn, name) => write!(f, "unknown operation {name} at {lsn}"),
            Untold::Length(lsn, told, parts) => {
                write!(f, "record at {lsn}: its parts take {parts} bytes, expected {told}")
            }
            Untold::Hole(expected, got) => write!(f, "expected a record at {expected}, got one at {got}"),
        }
    }
}

/// Makes WAL of records that are told in order, from the beginning of a segment on.
///
/// What comes before the first record is the rest of a record that began earlier: readers pass over it.
#[derive(Debug)]
pub struct Rebuilder {
    version: PgVersion,
    system_identifier: u64,
    timeline: u32,
    segment_size: u32,
    /// Where the next byte belongs.
    at: Lsn,
    is_begun: bool,
    is_switched: bool,
}

impl Rebuilder {
    /// Begins at `start`, where a segment begins.
    #[must_use]
    pub fn new(
        version: PgVersion,
        system_identifier: u64,
        timeline: u32,
        segment_size: u32,
        start: Lsn,
    ) -> Rebuilder {
        let at = Lsn(start.0 - start.offset_in(u64::from(segment_size)));
        Rebuilder {
            version,
            system_identifier,
            timeline,
            segment_size,
            at,
            is_begun: false,
            is_switched: false,
        }
    }

    /// Appends the bytes up to the record's end.
    ///
    /// # Errors
    ///
    /// If what is told contradicts itself; after that, nothing more can be made of the WAL.
    pub fn push(&mut self, told: &ToldRecord<'_>, out: &mut Vec<u8>) -> Result<(), Untold> {
        let record = self.record(told)?;
        if self.is_switched {
            let rest = u64::from(self.segment_size) - self.at.offset_in(u64::from(self.segment_size));
            if rest < u64::from(self.segment_size) {
                self.append(&vec![0; rest as usize], out);
            }
            self.is_switched = false;
        }
        if !self.is_begun {
            self.lead_to(told.lsn, out);
            self.is_begun = true;
        }
        self.begin_page(0, 0, out);
        if self.at != told.lsn {
            return Err(Untold::Hole(self.at, told.lsn));
        }
        self.lay(&record, out);
        self.is_switched = told.rmgr == "XLOG" && told.operation == "SWITCH";
        Ok(())
    }

    /// Fills the pages before the first record, as if a record before had its end there.
    fn lead_to(&mut self, first: Lsn, out: &mut Vec<u8>) {
        let mut rest = 0;
        let mut page = self.at;
        while page < first {
            let header = self.header_size(page);
            let end = page.advance(PAGE).min(first);
            rest += (end - page).saturating_sub(header);
            page = page.advance(PAGE);
        }
        let bytes = vec![0; rest as usize];
        self.lay(&bytes, out);
    }

    fn header_size(&self, page: Lsn) -> u64 {
        let is_long = page.offset_in(u64::from(self.segment_size)) == 0;
        u64::from(if is_long { LONG_HEADER_SIZE } else { SHORT_HEADER_SIZE })
    }

    fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
        self.at = self.at.advance(bytes.len() as u64);
    }

    /// Writes a page's header if a page begins here.
    fn begin_page(&mut self, flags: u16, remaining: u32, out: &mut Vec<u8>) {
        if self.at.offset_in(PAGE) != 0 {
            return;
        }
        let is_long = self.header_size(self.at) == u64::from(LONG_HEADER_SIZE);
        let info = flags | if is_long { LONG_HEADER } else { 0 };
        let mut header = Vec::with_capacity(LONG_HEADER_SIZE as usize);
        header.extend(self.version.magic().to_le_bytes());
        header.extend(info.to_le_bytes());
        header.extend(self.timeline.to_le_bytes());
        header.extend(self.at.0.to_le_bytes());
        header.extend(remaining.to_le_bytes());
        header.extend([0; 4]);
        if is_long {
            header.extend(self.system_identifier.to_le_bytes());
            header.extend(self.segment_size.to_le_bytes());
            header.extend(PAGE_SIZE.to_le_bytes());
        }
        self.append(&header, out);
    }

    /// Writes bytes over as many pages as they take, and the padding after them.
    fn lay(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Lengths of records, and of what leads to the first, fit 32 bits.
            self.begin_page(FIRST_IS_CONTRECORD, rest.len() as u32, out);
            let room = (PAGE - self.at.offset_in(PAGE)) as usize;
            let (piece, later) = rest.split_at(room.min(rest.len()));
            self.append(piece, out);
            rest = later;
        }
        let padding = self.at.0.next_multiple_of(ALIGNMENT) - self.at.0;
        self.append(&vec![0; padding as usize], out);
    }

    fn operation(&self, told: &ToldRecord<'_>) -> Result<Operation, Untold> {
        let unknown = || Untold::Operation(told.lsn, format!("{}/{}", told.rmgr, told.operation));
        let of = |rmgr, info| Operation { version: self.version, rmgr, info };
        let Some(rmgr) = (0..=21).map(RmgrId).find(|id| id.to_string() == told.rmgr) else {
            return if self.version < PgVersion::V15 { Err(unknown()) } else { Ok(of(CUSTOM, 0)) };
        };
        (0..16u8)
            .map(|code| of(rmgr, code << 4))
            .find(|operation| operation.name().is_some_and(|name| name == told.operation))
            .ok_or_else(unknown)
    }

    /// The record in one piece.
    fn record(&self, told: &ToldRecord<'_>) -> Result<Vec<u8>, Untold> {
        let operation = self.operation(told)?;
        let total = told.total_length as usize;
        let lengths = data_lengths(told, self.version);
        let mut head = Vec::with_capacity(total);
        head.extend(told.total_length.to_le_bytes());
        head.extend(told.xid.to_le_bytes());
        head.extend(told.prev.0.to_le_bytes());
        head.extend([operation.info, operation.rmgr.0]);
        head.extend([0; 6]);
        let mut before = None;
        for (block, data) in told.blocks.iter().zip(&lengths) {
            let is_same = before == Some(block.relation);
            before = Some(block.relation);
            let will_init = init::will_init(operation, block.id);
            head.extend(block_header(block, *data, is_same, will_init));
        }
        let main = told.main_length as usize;
        let main_header = match told.main_length {
            0 => Vec::new(),
            1..=255 => vec![255, told.main_length as u8],
            _ => [&[254][..], &told.main_length.to_le_bytes()].concat(),
        };
        let image = |block: &ToldBlock| block.image.map_or(0, |image| usize::from(image.length));
        let payload: usize = told.blocks.iter().map(image).sum::<usize>()
            + lengths.iter().map(|length| usize::from(*length)).sum::<usize>();
        let parts = head.len() + main_header.len() + payload + main;
        // Both stand between the blocks and the main data: origin, top-level transaction.
        let mut between = Vec::new();
        let rest = total.saturating_sub(parts);
        if [ORIGIN_BYTES, ORIGIN_BYTES + TOPLEVEL_BYTES].contains(&rest) {
            between.extend([253, 0, 0]);
        }
        if [TOPLEVEL_BYTES, ORIGIN_BYTES + TOPLEVEL_BYTES].contains(&rest) {
            between.extend([252, 0, 0, 0, 0]);
        }
        if parts + between.len() != total || head.len() < HEADER_SIZE {
            return Err(Untold::Length(told.lsn, told.total_length, parts));
        }
        head.extend(between);
        head.extend(main_header);
        for (block, data) in told.blocks.iter().zip(&lengths) {
            let begin = head.len();
            head.resize(begin + image(block) + usize::from(*data), 0);
            if let (true, Some(fields)) = (is_table(operation, block), head.get_mut(begin + 12..begin + 18)) {
                fields.copy_from_slice(&page_fields(block));
            }
        }
        let known = told.main_data.get(..main).unwrap_or(told.main_data);
        head.extend(known);
        head.resize(total, 0);
        let crc = checksum(&head).unwrap_or_default();
        if let Some(field) = head.get_mut(20..24) {
            field.copy_from_slice(&crc.to_le_bytes());
        }
        Ok(head)
    }
}

/// Bytes of each block's data: as told, or what is left of the record's length, for the first block that has no image.
fn data_lengths(told: &ToldRecord<'_>, version: PgVersion) -> Vec<u16> {
    if told.blocks.is_empty() || told.blocks.iter().all(|block| block.data_length.is_some()) {
        return told.blocks.iter().map(|block| block.data_length.unwrap_or(0)).collect();
    }
    let mut taken = HEADER_SIZE + told.main_length as usize;
    taken += match told.main_length {
        0 => 0,
        1..=255 => 2,
        _ => 5,
    };
    let mut before = None;
    for block in told.blocks {
        taken += block_header(block, 0, before == Some(block.relation), false).len();
        taken += block.image.map_or(0, |image| usize::from(image.length));
        before = Some(block.relation);
    }
    let mut left = (told.total_length as usize).saturating_sub(taken);
    let mut lengths = vec![0; told.blocks.len()];
    let bare = |block: &ToldBlock| block.image.is_none();
    let first = told.blocks.iter().position(bare).unwrap_or(0);
    let order = (first..told.blocks.len()).chain(0..first);
    for at in order {
        let part = u16::try_from(left).unwrap_or(u16::MAX);
        if let Some(length) = lengths.get_mut(at) {
            *length = part;
        }
        left -= usize::from(part);
    }
    debug_assert!(version >= PgVersion::V15, "nobody tells of older WAL");
    lengths
}

fn block_header(block: &ToldBlock, data: u16, is_same: bool, will_init: bool) -> Vec<u8> {
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let flags = block.fork
        | bit(block.image.is_some(), 0x10)
        | bit(data > 0, 0x20)
        | bit(will_init, 0x40)
        | bit(is_same, 0x80);
    let mut header = vec![block.id, flags];
    header.extend(data.to_le_bytes());
    if let Some(image) = block.image {
        header.extend(image.length.to_le_bytes());
        header.extend(image.hole_offset.to_le_bytes());
        // The bits of 15 and newer: nobody tells of older WAL.
        let method = match image.compression {
            None => 0,
            Some(Compression::Pglz) => 0x04,
            Some(Compression::Lz4) => 0x08,
            Some(Compression::Zstd) => 0x10,
        };
        header.push(bit(image.hole_length > 0, 0x01) | bit(image.apply, 0x02) | method);
        if image.compression.is_some() && image.hole_length > 0 {
            header.extend(image.hole_length.to_le_bytes());
        }
    }
    if !is_same {
        for number in [block.relation.tablespace, block.relation.database, block.relation.relation] {
            header.extend(number.to_le_bytes());
        }
    }
    header.extend(block.block.to_le_bytes());
    header
}

/// Whether the image is one of a table's page: its hole is then what lies between line pointers and tuples.
fn is_table(operation: Operation, block: &ToldBlock) -> bool {
    HEAP.contains(&operation.rmgr)
        && block.fork == 0
        && block.image.is_some_and(|image| image.compression.is_none() && image.hole_length > 0)
}

/// `pd_lower`, `pd_upper` and `pd_special`.
fn page_fields(block: &ToldBlock) -> [u8; 6] {
    let (lower, hole) = block.image.map_or((0, 0), |image| (image.hole_offset, image.hole_length));
    let mut fields = [0; 6];
    let bytes = [lower, lower.saturating_add(hole), BLOCK_SIZE].into_iter().flat_map(u16::to_le_bytes);
    fields.iter_mut().zip(bytes).for_each(|(field, byte)| *field = byte);
    fields
}
