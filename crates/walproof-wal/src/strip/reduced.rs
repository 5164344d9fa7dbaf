//! Records without contents, one by one, for a simulation of what others have read.

use crate::block::{decode, BlockRefs, Fragments};
use crate::error::Invalid;
use crate::lsn::Lsn;
use crate::record::{Record, RecordHeader, HEADER_SIZE};
use crate::strip::blank::blank;
use crate::version::PgVersion;

/// The record in one piece, in which totals and simulations see everything that they look at, except images.
#[must_use]
pub fn reduced(record: &Record<'_>) -> Vec<u8> {
    blank(record).0
}

/// Takes records apart that were found in order before: neither links nor checksums are looked at.
#[derive(Debug)]
pub struct Reduced {
    blocks: BlockRefs,
    fragments: Fragments,
}

impl Default for Reduced {
    fn default() -> Reduced {
        Reduced { blocks: BlockRefs::new(), fragments: Fragments::default() }
    }
}

impl Reduced {
    /// The record that `bytes` are, and nothing else.
    ///
    /// # Errors
    /// [`Invalid::RecordLength`] and what is wrong with its parts.
    pub fn record<'a>(
        &'a mut self,
        bytes: &'a [u8],
        lsn: Lsn,
        end: Lsn,
        version: PgVersion,
    ) -> Result<Record<'a>, Invalid> {
        let wrong = Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got: bytes.len() as u32 };
        let header = RecordHeader::parse(bytes)
            .filter(|header| header.total_length as usize == bytes.len())
            .ok_or(wrong)?;
        decode(bytes, lsn, version, &mut self.blocks, &mut self.fragments)?;
        Ok(Record {
            lsn,
            end,
            header,
            version,
            origin: self.fragments.origin,
            toplevel_xid: self.fragments.toplevel_xid,
            blocks: self.blocks.as_slice(),
            main_data: bytes.get(self.fragments.main_data.clone()).unwrap_or_default(),
            bytes,
        })
    }
}
