//! What reading a range leaves for the simulation: its records without contents, packed.
//!
//! ```text
//! magic u32 | page magic u16, segment size u32, system identifier u64
//! first record u64, the one that it names before it u64, last record u64, its end u64, timelines of both u32
//! how it ended u8: 0 the range goes on, 1 the WAL ended, 2 likewise, with a reason (bytes)
//! forks u32, each: tablespace, database, relation u32, number u8     in the order of their first references
//! images u32, each: record u64, reference u8, fork u32, flags u8     1 blank, 2 consistency is checked
//! records, in chunks: bytes unpacked u32, bytes packed u64, zstd; each record: where u64, its end u64, the record
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use walproof_wal::{
    reduced, Error, Lsn, PgVersion, Range, Reader, Record, Reduced, RelFileLocator, Segments, WalIdentity,
};

use crate::knowledge::{has_image, is_blank};
use crate::ranges::form::{Taking, Writing};
use crate::simulation::CHECK_CONSISTENCY;

const MAGIC: u32 = 0x7770_6431;
const LEVEL: i32 = 1;
/// Bytes of records that are packed together.
const CHUNK_BYTES: usize = 4 << 20;
/// The longest record and a chunk before it.
const CHUNK_MOST: usize = (1 << 30) + CHUNK_BYTES;
const BLANK: u8 = 1;
const CHECKED: u8 = 2;

/// An image of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageRef {
    pub(super) lsn: Lsn,
    pub(super) id: u8,
    /// Place of its fork in [`Digest::forks`].
    pub(super) fork: u32,
    /// Whether its contents were taken out before.
    pub(super) is_blank: bool,
    /// Whether its record is there to check consistency.
    pub(super) is_checked: bool,
}

/// How reading a range ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// At the range that follows.
    GoesOn,
    /// With the WAL, for that reason if there is one.
    End(Option<String>),
}

/// Records of a range without contents.
#[derive(Debug)]
pub struct Digest {
    pub(super) identity: WalIdentity,
    pub(super) first: Lsn,
    pub(super) first_previous: Lsn,
    pub(super) last: Lsn,
    pub(super) end: Lsn,
    pub(super) timelines: (u32, u32),
    pub(super) ended: Ended,
    pub(super) forks: Vec<(RelFileLocator, u8)>,
    pub(super) images: Vec<ImageRef>,
    /// Bytes unpacked, and the packed ones.
    chunks: Vec<(u32, Vec<u8>)>,
}

impl Digest {
    /// Reads the records of `range` that begin before `until`; all of them when that is None. None where the WAL
    /// ends before `until`, or has no record.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next_record`].
    pub fn read(segments: Arc<Segments>, range: Range, until: Option<Lsn>) -> Result<Option<Digest>, Error> {
        let mut reader = Reader::open(segments, range)?;
        reader.announce(1);
        let mut made = Making::default();
        let mut goes_on = false;
        while let Some(record) = reader.next_record()? {
            if until.is_some_and(|until| record.lsn >= until) {
                goes_on = true;
                break;
            }
            made.add(&record)?;
            made.timelines.get_or_insert((reader.timeline(), 0)).1 = reader.timeline();
        }
        made.pack()?;
        let identity = reader.identity();
        let last_timeline = reader.timeline();
        let ended = match (goes_on, until) {
            (true, _) => Ended::GoesOn,
            (false, Some(_)) => return Ok(None),
            (false, None) => Ended::End(reader.into_finish().reason()),
        };
        let (Some((first, first_previous)), Some((last, end)), Some(mut timelines)) =
            (made.first, made.last, made.timelines)
        else {
            return Ok(None);
        };
        if ended != Ended::GoesOn {
            timelines.1 = last_timeline;
        }
        let Making { forks, images, chunks, .. } = made;
        Ok(Some(Digest {
            identity,
            first,
            first_previous,
            last,
            end,
            timelines,
            ended,
            forks,
            images,
            chunks,
        }))
    }

    /// Whether the WAL ends in the range.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.ended != Ended::GoesOn
    }

    /// Shows each record in order, as long as `see` says to go on; None for one that is damaged.
    pub(super) fn records(&self, mut see: impl FnMut(&Record<'_>) -> bool) -> Option<()> {
        let mut parts = Reduced::default();
        for (unpacked, packed) in &self.chunks {
            let length = usize::try_from(*unpacked).ok().filter(|length| *length <= CHUNK_MOST)?;
            let bytes = zstd::bulk::decompress(packed, length).ok()?;
            let mut taking = Taking(&bytes);
            while !taking.0.is_empty() {
                let (lsn, end) = (Lsn(taking.u64()?), Lsn(taking.u64()?));
                let total = u32::from_le_bytes(*taking.0.first_chunk()?);
                let bytes = taking.take(usize::try_from(total).ok()?)?;
                let record = parts.record(bytes, lsn, end, self.identity.version).ok()?;
                if end <= lsn || lsn < self.first || lsn > self.last || end > self.end {
                    return None;
                }
                if !see(&record) {
                    return Some(());
                }
            }
        }
        Some(())
    }

    /// As it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writing::default();
        out.u32(MAGIC);
        out.u16(self.identity.version.magic());
        out.u32(self.identity.segment_size);
        out.u64(self.identity.system_identifier);
        for lsn in [self.first, self.first_previous, self.last, self.end] {
            out.u64(lsn.0);
        }
        out.u32(self.timelines.0);
        out.u32(self.timelines.1);
        match &self.ended {
            Ended::GoesOn => out.u8(0),
            Ended::End(None) => out.u8(1),
            Ended::End(Some(reason)) => {
                out.u8(2);
                out.bytes(reason.as_bytes());
            }
        }
        out.u32(self.forks.len() as u32);
        for (relation, fork) in &self.forks {
            for number in [relation.tablespace, relation.database, relation.relation] {
                out.u32(number);
            }
            out.u8(*fork);
        }
        out.u32(self.images.len() as u32);
        for image in &self.images {
            out.u64(image.lsn.0);
            out.u8(image.id);
            out.u32(image.fork);
            out.u8(if image.is_blank { BLANK } else { 0 } | if image.is_checked { CHECKED } else { 0 });
        }
        for (unpacked, packed) in &self.chunks {
            out.u32(*unpacked);
            out.bytes(packed);
        }
        out.0
    }

    /// What [`Digest::to_bytes`] made; None for anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Digest> {
        let mut taking = Taking(bytes);
        (taking.u32()? == MAGIC).then_some(())?;
        let identity = WalIdentity {
            version: PgVersion::from_magic(taking.u16()?)?,
            segment_size: taking.u32()?,
            system_identifier: taking.u64()?,
        };
        let mut lsn = || taking.u64().map(Lsn);
        let (first, first_previous, last, end) = (lsn()?, lsn()?, lsn()?, lsn()?);
        let timelines = (taking.u32()?, taking.u32()?);
        let ended = match taking.u8()? {
            0 => Ended::GoesOn,
            1 => Ended::End(None),
            _ => Ended::End(Some(String::from_utf8_lossy(taking.bytes()?).into_owned())),
        };
        let mut forks = Vec::new();
        for _ in 0..taking.u32()? {
            let relation = RelFileLocator {
                tablespace: taking.u32()?,
                database: taking.u32()?,
                relation: taking.u32()?,
            };
            forks.push((relation, taking.u8()?));
        }
        let mut images = Vec::new();
        for _ in 0..taking.u32()? {
            let (lsn, id, fork, flags) = (Lsn(taking.u64()?), taking.u8()?, taking.u32()?, taking.u8()?);
            ((fork as usize) < forks.len()).then_some(())?;
            let (is_blank, is_checked) = (flags & BLANK != 0, flags & CHECKED != 0);
            images.push(ImageRef { lsn, id, fork, is_blank, is_checked });
        }
        let mut chunks = Vec::new();
        while !taking.0.is_empty() {
            chunks.push((taking.u32()?, taking.bytes()?.to_vec()));
        }
        Some(Digest { identity, first, first_previous, last, end, timelines, ended, forks, images, chunks })
    }
}

/// A digest that is being made.
#[derive(Debug, Default)]
struct Making {
    first: Option<(Lsn, Lsn)>,
    last: Option<(Lsn, Lsn)>,
    timelines: Option<(u32, u32)>,
    numbers: FxHashMap<(RelFileLocator, u8), u32>,
    forks: Vec<(RelFileLocator, u8)>,
    images: Vec<ImageRef>,
    chunks: Vec<(u32, Vec<u8>)>,
    unpacked: Writing,
}

impl Making {
    fn add(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.first.get_or_insert((record.lsn, record.header.prev));
        self.last = Some((record.lsn, record.end));
        for block in record.blocks {
            let key = (block.relation, block.fork);
            let next = self.forks.len() as u32;
            let fork = *self.numbers.entry(key).or_insert(next);
            if fork == next {
                self.forks.push(key);
            }
            if has_image(block) {
                self.images.push(ImageRef {
                    lsn: record.lsn,
                    id: block.id,
                    fork,
                    is_blank: is_blank(record.image(block)),
                    is_checked: record.header.info & CHECK_CONSISTENCY != 0,
                });
            }
        }
        self.unpacked.u64(record.lsn.0);
        self.unpacked.u64(record.end.0);
        self.unpacked.0.extend(reduced(record));
        if self.unpacked.0.len() >= CHUNK_BYTES {
            self.pack()?;
        }
        Ok(())
    }

    fn pack(&mut self) -> Result<(), Error> {
        let unpacked = std::mem::take(&mut self.unpacked.0);
        if unpacked.is_empty() {
            return Ok(());
        }
        let packed = zstd::bulk::compress(&unpacked, LEVEL).map_err(|source| Error::Io {
            action: "pack records of",
            path: PathBuf::from("WAL"),
            source,
        })?;
        self.chunks.push((unpacked.len() as u32, packed));
        Ok(())
    }
}
