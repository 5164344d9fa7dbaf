//! Records of which only the beginning, or only the end, is at hand: parts of a recording are stripped apart, and the
//! rest of such a record lies in another part.
//!
//! Neither side sees the whole, and both must write halves that make one record with a right checksum. So the end is
//! zeros, and the beginning is made for that: as it was, without contents, where all that says how to read it is in it;
//! an empty XLOG/NOOP of the same length else. The second side knows as much as it needs: the record after states
//! where this one begins, so which of its bytes are missing. Records begin at multiples of 8, as segments do, so
//! the header may be cut in two places:
//!
//! ```text
//! bytes of it in the first part
//!   8        length, transaction | link, operation, checksum   the second side has all that the checksum needs
//!  16        ..., link           | operation, checksum         it lacks the link, so it writes a fixed checksum, and the
//!                                                              first side chooses the transaction that leads to that
//!  24        ..., checksum       |                             the first side has all
//! ```

use crate::block::{decode, BlockRefs, Fragments};
use crate::lsn::Lsn;
use crate::record::{Record, RecordHeader, HEADER_SIZE, MAX_LENGTH};
use crate::strip::blank::{blank, kept_at_most};
use crate::version::PgVersion;

const XLOG_NOOP: [u8; 2] = [0x20, 0];
const XID_AT: usize = 4;
const FIXED_CRC: u32 = 0x7A65_726F;
/// Longer records are always made empty ones: to blank one, its length is taken from memory.
const LONGEST_READ: u32 = 16 << 20;

/// The first bytes of a record, without contents: as many as `bytes`. `version` wrote it, at `lsn`.
pub(super) fn head(bytes: &[u8], lsn: Lsn, version: PgVersion) -> Vec<u8> {
    let length = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length));
    let count = bytes.len();
    if (length as usize) < HEADER_SIZE || length > MAX_LENGTH || length as usize <= count {
        return vec![0; count];
    }
    if let Some(made) = as_it_was(bytes, length, lsn, version) {
        return made;
    }
    let prev =
        bytes.get(8..16).and_then(|prev| prev.first_chunk()).map_or(0, |prev| u64::from_le_bytes(*prev));
    let mut made = empty(length, prev);
    if count == 16 {
        let xid = transaction_for(&made);
        put(&mut made, XID_AT, &xid.to_le_bytes());
    }
    made.truncate(count);
    made.resize(count, 0);
    made
}

/// The rest of a record of which `before` bytes are elsewhere, with its contents blanked out. `bytes` is all of the rest,
/// or its beginning.
pub(super) fn tail(bytes: &[u8], before: u64, rest: u32) -> Vec<u8> {
    let count = bytes.len();
    let length = before.checked_add(u64::from(rest)).and_then(|length| u32::try_from(length).ok());
    let mut made = match (length, before) {
        (Some(length), 8 | 16 | 24) if length <= MAX_LENGTH && length as usize >= HEADER_SIZE => {
            let prev =
                bytes.first_chunk().filter(|_| before == 8).map_or(0, |prev| u64::from_le_bytes(*prev));
            let mut whole = empty(length, prev);
            if before == 16 {
                put(&mut whole, 20, &FIXED_CRC.to_le_bytes());
            }
            whole.split_off((before as usize).min(whole.len()))
        }
        _ => Vec::new(),
    };
    made.resize(count, 0);
    made
}

/// The beginning of the record without contents, where its end is not needed to know what these are.
fn as_it_was(bytes: &[u8], length: u32, lsn: Lsn, version: PgVersion) -> Option<Vec<u8>> {
    let header = RecordHeader::parse(bytes).filter(|_| length <= LONGEST_READ)?;
    let mut whole = bytes.to_vec();
    whole.resize(length as usize, 0);
    let (mut blocks, mut fragments) = (BlockRefs::new(), Fragments::default());
    decode(&whole, lsn, version, &mut blocks, &mut fragments).ok()?;
    let record = Record {
        lsn,
        end: lsn,
        header,
        version,
        origin: fragments.origin,
        toplevel_xid: fragments.toplevel_xid,
        blocks: blocks.as_slice(),
        main_data: whole.get(fragments.main_data.clone())?,
        bytes: &whole,
    };
    let contents =
        blocks.as_slice().first().map_or(fragments.main_data.start, |block| block.image_range().start);
    let needed = fragments.main_data.start + kept_at_most(&record);
    if contents > bytes.len() || (needed > bytes.len() && kept_at_most(&record) > 0) {
        return None;
    }
    let mut made = blank(&record).0;
    made.truncate(bytes.len());
    Some(made)
}

/// XLOG/NOOP of that length, as far as it is not zeros: header and header of the main data. Its checksum is right.
fn empty(length: u32, prev: u64) -> Vec<u8> {
    let mut made = vec![0; HEADER_SIZE];
    put(&mut made, 0, &length.to_le_bytes());
    put(&mut made, 8, &prev.to_le_bytes());
    put(&mut made, 16, &XLOG_NOOP);
    match length as usize - HEADER_SIZE {
        0 => {}
        short @ 1..=257 => made.extend([255, (short - 2.min(short)) as u8]),
        long => {
            made.push(254);
            made.extend((long as u32 - 5).to_le_bytes());
        }
    }
    let crc = with_header(data_checksum(&made, length), &made);
    put(&mut made, 20, &crc.to_le_bytes());
    made
}

/// The checksum of what follows the header of a record of that length, which ends in zeros.
fn data_checksum(made: &[u8], length: u32) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut zeros = (length as usize).saturating_sub(made.len());
    let mut crc = crc32c::crc32c(made.get(HEADER_SIZE..).unwrap_or_default());
    while zeros > 0 {
        let piece = ZEROS.get(..zeros).unwrap_or(&ZEROS);
        crc = crc32c::crc32c_append(crc, piece);
        zeros -= piece.len();
    }
    crc
}

fn with_header(data: u32, made: &[u8]) -> u32 {
    crc32c::crc32c_append(data, made.get(..20).unwrap_or_default())
}

/// The number of a transaction with which the record's checksum is [`FIXED_CRC`]. A checksum is linear in each bit, so
/// the 32 bits are the solution of 32 equations, which there always is.
fn transaction_for(made: &[u8]) -> u32 {
    let length = made.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let data = data_checksum(made, length);
    let mut trial = made.to_vec();
    let mut crc_of = |xid: u32| {
        put(&mut trial, XID_AT, &xid.to_le_bytes());
        with_header(data, &trial)
    };
    let none = crc_of(0);
    // Each row: what some bits change in the checksum, and which bits. Rows are combined until each has a highest bit
    // of its own.
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for bit in 0..32 {
        let reduced = reduce(&rows, (crc_of(1 << bit) ^ none, 1 << bit));
        if reduced.0 != 0 {
            rows.push(reduced);
        }
    }
    reduce(&rows, (none ^ FIXED_CRC, 0)).1
}

fn reduce(rows: &[(u32, u32)], mut row: (u32, u32)) -> (u32, u32) {
    while let Some(other) =
        rows.iter().find(|other| row.0 != 0 && other.0.leading_zeros() == row.0.leading_zeros())
    {
        row = (row.0 ^ other.0, row.1 ^ other.1);
    }
    row
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
