//! Which transactions end with a record, besides the one of its header: subtransactions, and a prepared transaction,
//! of which another session's record says that it ended.
//!
//! ```text
//! xl_xact_commit and xl_xact_abort (src/include/access/xact.h), each part where xinfo has its bit:
//!   8  time; 4  xinfo, if XLOG_XACT_HAS_INFO is in xl_info
//!   0x001  8            database
//!   0x002  4 + 4 each   subtransactions
//!   0x004  4 + 12 each  files that are removed
//!   0x100  4 + 12 each  statistics that are removed (from 15; from 18 16 each)
//!   0x008  4 + 16 each  invalidation messages
//!   0x010  4            the prepared transaction
//! ```

use walproof_wal::{PgVersion, Record, TransactionEnd};

const HAS_INFO: u8 = 0x80;

/// The numbers; none for a record that is no end of a transaction.
pub fn ended_with(record: &Record<'_>) -> Vec<u32> {
    if TransactionEnd::from_record(record).is_none() || record.header.info & HAS_INFO == 0 {
        return Vec::new();
    }
    let mut ended = Vec::new();
    // A record that is cut short has told what stands before that.
    let _ = read(record, &mut ended);
    ended
}

fn read(record: &Record<'_>, ended: &mut Vec<u32>) -> Option<()> {
    let mut fields = Fields(record.main_data);
    fields.skip(8)?;
    let info = fields.u32()?;
    if info & 0x1 != 0 {
        fields.skip(8)?;
    }
    if info & 0x2 != 0 {
        for _ in 0..fields.u32()? {
            ended.push(fields.u32()?);
        }
    }
    let statistic = if record.version < PgVersion::V18 { 12 } else { 16 };
    for (bit, size) in [(0x4, 12), (0x100, statistic), (0x8, 16)] {
        if info & bit != 0 {
            let count = fields.u32()? as usize;
            fields.skip(count.checked_mul(size)?)?;
        }
    }
    if info & 0x10 != 0 {
        ended.push(fields.u32()?);
    }
    Some(())
}

/// What is left of a record's data.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }
}
