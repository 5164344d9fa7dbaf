//! A record over the edge between two segments: what each segment has of it, and both together.
//!
//! A record's checksum covers its data, then its header. Of the part that begins a record its first bytes are kept, its
//! header (24 bytes) among them, and the checksum of the data so far; of a part that continues one, the first bytes,
//! which may still belong to the header, and the checksum of the others. That is enough, however much there is in
//! between. How many bytes are kept depends on what is to be known of the whole: for its checksum the header is enough,
//! for what the record is about, everything before its data ([`OPENING`]).

use crate::error::Invalid;
use crate::lsn::Lsn;
use crate::record::{RecordHeader, HEADER_SIZE, MAX_LENGTH};
use crate::version::PgVersion;

/// Bytes that are kept if only the checksum matters.
pub(crate) const HEADER: usize = HEADER_SIZE;
/// Bytes that are kept where what the record is about matters: its header, 33 references to blocks of up to 27 bytes, and
/// what else stands before the data take 928 at most; the main data of a record without blocks begins there.
pub(crate) const OPENING: usize = 1024;

/// The part of a record that stands before the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Where the record begins.
    pub lsn: Lsn,
    /// `xl_tot_len`.
    pub total_length: u32,
    /// Bytes of it so far.
    pub length: u32,
    /// The first of them, at most 24 if only the checksum matters.
    pub header: Vec<u8>,
    /// CRC-32C of the bytes after the first 24.
    pub crc: u32,
}

/// A part of a record that stands after an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Bytes of the record that the first page still expects (`xlp_rem_len`).
    pub remaining: u32,
    /// Bytes of them in this segment.
    pub length: u32,
    /// The first of them, at most 24 if only the checksum matters.
    pub first: Vec<u8>,
    /// CRC-32C of the others.
    pub crc: u32,
}

/// A record as far as it is known on both sides of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// All of it, and its header and checksum are in order.
    Whole(Begun),
    /// It goes on after the next edge.
    Begun(Begun),
}

impl Begun {
    /// A part that is at hand, with so many bytes kept; None if not even the record's length is there.
    pub(crate) fn new(lsn: Lsn, bytes: &[u8], keep: usize) -> Option<Begun> {
        let mut begun = Begun::at(lsn);
        begun.add(bytes, keep);
        (begun.length >= 4).then_some(begun)
    }

    /// Nothing of a record yet.
    pub(crate) fn at(lsn: Lsn) -> Begun {
        Begun { lsn, total_length: 0, length: 0, header: Vec::new(), crc: 0 }
    }

    /// Adds the next bytes; the first `keep` bytes of the part are kept.
    pub(crate) fn add(&mut self, bytes: &[u8], keep: usize) {
        let room = keep.saturating_sub(self.header.len()).min(bytes.len());
        self.header.extend_from_slice(bytes.get(..room).unwrap_or_default());
        let wanted = HEADER_SIZE.saturating_sub(self.length as usize);
        self.crc = crc32c::crc32c_append(self.crc, bytes.get(wanted..).unwrap_or_default());
        self.length = self.length.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.total_length = self.header.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    }

    /// Bytes of the record that are not here.
    pub(crate) fn missing(&self) -> u32 {
        self.total_length.saturating_sub(self.length)
    }
}

impl Rest {
    /// Adds the next bytes; the first `keep` bytes of the part are kept.
    pub(crate) fn add(&mut self, bytes: &[u8], keep: usize) {
        let room = keep.saturating_sub(self.first.len()).min(bytes.len());
        let (first, others) = bytes.split_at(room);
        self.first.extend_from_slice(first);
        self.crc = crc32c::crc32c_append(self.crc, others);
        self.length = self.length.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }

    /// The same with what stands after the next edge; None if that is not what is missing here.
    pub(crate) fn followed_by(&self, next: &Rest, keep: usize) -> Option<Rest> {
        let missing = self.missing();
        if missing == 0 || next.remaining != missing || next.length > missing {
            return None;
        }
        let room = keep.saturating_sub(self.first.len()).min(next.first.len());
        let mut first = self.first.clone();
        first.extend(next.first.get(..room).unwrap_or_default());
        let others = (next.length as usize).saturating_sub(room);
        let crc = crc32c::crc32c_combine(self.crc, next.crc_after(room), others);
        let length = self.length.saturating_add(next.length);
        Some(Rest { remaining: self.remaining, length, first, crc })
    }

    /// Bytes of the record that are after the next edge.
    pub(crate) fn missing(&self) -> u32 {
        self.remaining.saturating_sub(self.length)
    }

    /// CRC-32C of all bytes but the first `skipped`, which have to be kept ones.
    fn crc_after(&self, skipped: usize) -> u32 {
        let first = crc32c::crc32c(self.first.get(skipped..).unwrap_or_default());
        crc32c::crc32c_combine(first, self.crc, (self.length as usize).saturating_sub(self.first.len()))
    }
}

/// Puts the two parts together. `previous` is the record before, if it is known.
///
/// # Errors
/// What is wrong with the record, as the decoder would say it.
pub fn join(
    begun: &Begun,
    rest: &Rest,
    previous: Option<Lsn>,
    version: PgVersion,
) -> Result<Joined, Invalid> {
    join_keeping(begun, rest, previous, version, HEADER)
}

/// As [`join`]; of the record's first bytes so many are kept, and have been kept of the parts.
pub(crate) fn join_keeping(
    begun: &Begun,
    rest: &Rest,
    previous: Option<Lsn>,
    version: PgVersion,
    keep: usize,
) -> Result<Joined, Invalid> {
    let lsn = begun.lsn;
    let missing = begun.missing();
    if rest.remaining == 0 || rest.remaining != missing || rest.length > missing {
        return Err(Invalid::ContrecordLength { lsn, got: rest.remaining, expected: missing });
    }
    let mut header = begun.header.clone();
    header.extend(rest.first.iter().take(keep.saturating_sub(header.len())));
    let wanted = HEADER_SIZE.saturating_sub(begun.length as usize);
    let data = (rest.length as usize).saturating_sub(wanted);
    let crc = if wanted == 0 {
        crc32c::crc32c_combine(begun.crc, rest.crc_after(0), data)
    } else {
        rest.crc_after(wanted)
    };
    let whole = Begun { length: begun.length.saturating_add(rest.length), header, crc, ..begun.clone() };
    let Some(parsed) = RecordHeader::parse(&whole.header) else {
        if whole.missing() > 0 {
            return Ok(Joined::Begun(whole));
        }
        return Err(Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got: begun.total_length });
    };
    if !parsed.rmgr.is_valid(version) {
        return Err(Invalid::ResourceManager { lsn, got: parsed.rmgr.0 });
    }
    if previous.map_or(parsed.prev >= lsn, |previous| parsed.prev != previous) {
        return Err(Invalid::PrevLink { lsn, got: parsed.prev });
    }
    if parsed.total_length > MAX_LENGTH {
        return Err(Invalid::RecordTooLong { lsn, got: parsed.total_length });
    }
    if whole.length < whole.total_length {
        return Ok(Joined::Begun(whole));
    }
    let head = whole.header.get(..20).unwrap_or_default();
    if crc32c::crc32c_append(whole.crc, head) != parsed.crc {
        return Err(Invalid::Checksum { lsn });
    }
    Ok(Joined::Whole(whole))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::record::checksum;

    fn record(length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length).map(|byte| (byte * 7) as u8).collect();
        bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&0x100u64.to_le_bytes());
        bytes[17] = 0;
        let crc = checksum(&bytes).unwrap();
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn rest_of(bytes: &[u8], from: usize, to: usize) -> Rest {
        let mut rest = Rest { remaining: (bytes.len() - from) as u32, ..Rest::default() };
        bytes[from..to].chunks(5).for_each(|piece| rest.add(piece, HEADER));
        rest
    }

    /// However a record is cut in two or three, it is found whole, and found changed when a byte is changed.
    #[test]
    fn parts_are_as_good_as_the_whole() {
        let version = PgVersion::V17;
        for length in [24, 25, 32, 100] {
            let plain = record(length);
            for changed in [None, Some(0), Some(4), Some(9), Some(18), Some(21), Some(23), Some(length - 1)] {
                let mut bytes = plain.clone();
                if let Some(at) = changed {
                    bytes[at] ^= 0x40;
                }
                for first in (8..length).step_by(8) {
                    let begun = Begun::new(Lsn(0x200), &bytes[..first], HEADER).unwrap();
                    let joined = join(&begun, &rest_of(&bytes, first, length), Some(Lsn(0x100)), version);
                    assert_eq!(
                        matches!(joined, Ok(Joined::Whole(_))),
                        changed.is_none(),
                        "{length} {first} {changed:?}"
                    );
                    for second in (first + 16..length).step_by(8) {
                        let middle = join(&begun, &rest_of(&bytes, first, second), Some(Lsn(0x100)), version);
                        let joined = middle.and_then(|middle| match middle {
                            Joined::Begun(begun) => {
                                let rest = rest_of(&bytes, second, length);
                                join(&begun, &rest, Some(Lsn(0x100)), version)
                            }
                            whole => Ok(whole),
                        });
                        assert_eq!(
                            matches!(joined, Ok(Joined::Whole(_))),
                            changed.is_none(),
                            "{length} {first} {second}"
                        );
                    }
                }
            }
        }
    }
}
