//! Images that a simulation wants to know more of, compressed where the WAL is.
//!
//! ```text
//! nanoseconds of pglz, lz4 and zstd u64
//! each image: record u64, reference u8, flags u8: 1 it tells lengths, 2 it tells tuples
//!   lengths: plain, pglz, lz4, zstd u16;  tuples: their number u64, their bytes u64
//! ```

use std::sync::Arc;

use walproof_wal::{Error, Lsn, Range, Reader, Segments};

use crate::images::{Compressor, Lengths};
use crate::knowledge::{look_at, Look};
use crate::ranges::form::{Taking, Writing};

const LENGTHS: u8 = 1;
const TUPLES: u8 = 2;

/// What was seen of images.
#[derive(Debug, Default)]
pub struct Looks {
    pub(super) found: Vec<(Lsn, u8, Look)>,
    pub(super) nanoseconds: [u64; 3],
}

impl Looks {
    /// Looks at images, which are in the order of their records; those that are not there are left out. `clock`
    /// gives nanoseconds.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next_record`].
    pub fn read(
        segments: &Arc<Segments>,
        timeline: Option<u32>,
        wanted: &[(Lsn, u8)],
        clock: &(dyn Fn() -> u64 + Sync),
    ) -> Result<Looks, Error> {
        let mut compressor = Compressor::new(clock);
        let mut found = Vec::new();
        let mut left = wanted;
        while let Some((lsn, _)) = left.first() {
            let range = Range { start: Some(*lsn), timeline, ..Range::default() };
            let mut reader = Reader::open(Arc::clone(segments), range)?;
            let segment_size = u64::from(reader.identity().segment_size);
            while let Some(record) = reader.next_record()? {
                let here = left.iter().take_while(|(lsn, _)| *lsn <= record.lsn).count();
                let (of_it, after) = left.split_at(here);
                for (lsn, id) in of_it {
                    let block = record.blocks.iter().find(|block| block.id == *id && *lsn == record.lsn);
                    if let Some((block, image)) = block.and_then(|block| Some((block, block.image?))) {
                        found.push((*lsn, *id, look_at(&mut compressor, &image, record.image(block))));
                    }
                }
                left = after;
                // The next one may be far away.
                if left.first().is_none_or(|(next, _)| *next > record.lsn.advance(segment_size)) {
                    break;
                }
            }
            if left.first().is_some_and(|(next, _)| next == lsn) {
                break; // the WAL does not lead there
            }
        }
        Ok(Looks { found, nanoseconds: compressor.nanoseconds() })
    }

    /// As it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writing::default();
        self.nanoseconds.iter().for_each(|spent| out.u64(*spent));
        for (lsn, id, look) in &self.found {
            out.u64(lsn.0);
            out.u8(*id);
            let tuples = look.and_then(|(_, tuples)| tuples);
            out.u8(look.map_or(0, |_| LENGTHS) | tuples.map_or(0, |_| TUPLES));
            if let Some((Lengths { plain, compressed }, _)) = look {
                out.u16(*plain);
                compressed.iter().for_each(|length| out.u16(*length));
            }
            if let Some((count, bytes)) = tuples {
                out.u64(count);
                out.u64(bytes);
            }
        }
        out.0
    }

    /// What [`Looks::to_bytes`] made; None for anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Looks> {
        let mut taking = Taking(bytes);
        let nanoseconds = [taking.u64()?, taking.u64()?, taking.u64()?];
        let mut found = Vec::new();
        while !taking.0.is_empty() {
            let (lsn, id, flags) = (Lsn(taking.u64()?), taking.u8()?, taking.u8()?);
            let mut look = None;
            if flags & LENGTHS != 0 {
                let plain = taking.u16()?;
                let compressed = [taking.u16()?, taking.u16()?, taking.u16()?];
                let tuples = if flags & TUPLES != 0 { Some((taking.u64()?, taking.u64()?)) } else { None };
                look = Some((Lengths { plain, compressed }, tuples));
            }
            found.push((lsn, id, look));
        }
        Some(Looks { found, nanoseconds })
    }
}
