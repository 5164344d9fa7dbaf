//! Which records come unexpected: a processor foretells what code is next from what came after the same code last time.

use walproof_wal::RecordHeader;

/// Resource managers, each with 16 operations.
const KINDS: usize = 256 * 16;

/// What followed each kind of record last.
#[derive(Debug)]
pub(crate) struct Kinds {
    followed_by: Vec<u16>,
    last: u16,
}

impl Kinds {
    pub(crate) fn new() -> Kinds {
        Kinds { followed_by: vec![0; KINDS], last: 0 }
    }

    /// Whether the record is of another kind than the one that last followed a record like the one before it.
    #[inline]
    pub(crate) fn is_unforeseen(&mut self, header: &RecordHeader) -> bool {
        let kind = u16::from(header.rmgr.0) << 4 | u16::from(header.info >> 4);
        let Some(foreseen) = self.followed_by.get_mut(usize::from(self.last)) else { return false };
        self.last = kind;
        std::mem::replace(foreseen, kind) != kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walproof_wal::{Lsn, RmgrId};

    fn unforeseen(kinds: &[(RmgrId, u8)]) -> Vec<bool> {
        let mut own = Kinds::new();
        let header =
            |(rmgr, info)| RecordHeader { rmgr, info, total_length: 24, xid: 0, prev: Lsn(0), crc: 0 };
        kinds.iter().map(|kind| own.is_unforeseen(&header(*kind))).collect()
    }

    #[test]
    fn what_repeats_is_foreseen() {
        let pair = [(RmgrId::HEAP2, 0x00), (RmgrId::BTREE, 0x00)];
        assert_eq!(unforeseen(&pair.repeat(3)), [true, true, true, false, false, false]);
        // The low bits of the operation say nothing of its kind.
        let flagged = [(RmgrId::HEAP2, 0x20), (RmgrId::HEAP2, 0x21), (RmgrId::HEAP2, 0x22)];
        assert_eq!(unforeseen(&flagged), [true, true, false]);
        let turns =
            [(RmgrId::HEAP2, 0x00), (RmgrId::BTREE, 0x00), (RmgrId::HEAP2, 0x00), (RmgrId::HEAP2, 0x20)];
        assert_eq!(unforeseen(&turns), [true, true, true, true]);
    }
}
