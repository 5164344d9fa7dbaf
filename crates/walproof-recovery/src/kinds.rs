//! Which records come unexpected: a processor predicts what code is next from what mostly came after the same
//! code.

use walproof_wal::RmgrId;

/// Bits of a kind: resource managers, each with 16 operations.
const KIND_BITS: u32 = 8 + 4;
/// Kinds that make up a context: about as far as the history of a processor's branches reaches back in replay.
const CONTEXT: u64 = (1 << (4 * KIND_BITS)) - 1;
/// Contexts are hashed to so many bits; a load has a few hundred of them.
const HASH_BITS: u32 = 16;
/// 2^64 over the golden ratio (Knuth, The Art of Computer Programming, 6.4).
const HASH: u64 = 0x9E37_79B9_7F4A_7C15;
/// How often a processor's two-bit counter of a branch may be wrong before the prediction changes.
const SUREST: u8 = 3;

/// What is expected in a context.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    kind: u16,
    sureness: u8,
}

/// What mostly followed each four kinds of records.
#[derive(Debug)]
pub(crate) struct Kinds {
    expected: Vec<Expected>,
    /// The kinds of the last records, the last one in the lowest bits.
    history: u64,
}

impl Kinds {
    pub(crate) fn new() -> Kinds {
        Kinds { expected: vec![Expected::default(); 1 << HASH_BITS], history: 0 }
    }

    /// Whether the record's kind is not the one that mostly followed records like the four before it.
    #[inline]
    pub(crate) fn is_unforeseen(&mut self, rmgr: RmgrId, info: u8) -> bool {
        let kind = u16::from(rmgr.0) << 4 | u16::from(info >> 4);
        let place = (self.history & CONTEXT).wrapping_mul(HASH) >> (u64::BITS - HASH_BITS);
        self.history = self.history << KIND_BITS | u64::from(kind);
        let Some(expected) = self.expected.get_mut(place as usize) else { return false };
        if expected.kind == kind {
            expected.sureness = SUREST.min(expected.sureness + 1);
            return false;
        }
        if expected.sureness == 0 {
            *expected = Expected { kind, sureness: 1 };
        } else {
            expected.sureness -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSERT: (RmgrId, u8) = (RmgrId(10), 0x00);
    const KEY: (RmgrId, u8) = (RmgrId::BTREE, 0x00);
    const COMMIT: (RmgrId, u8) = (RmgrId::TRANSACTION, 0x00);

    /// Places of the records that were not foreseen.
    fn unforeseen(kinds: &[(RmgrId, u8)]) -> Vec<usize> {
        let mut foreseen = Kinds::new();
        let places = kinds.iter().enumerate();
        places.filter_map(|(place, kind)| foreseen.is_unforeseen(kind.0, kind.1).then_some(place)).collect()
    }

    #[test]
    fn what_repeats_is_foreseen() {
        // After a key comes a key, or another row: three keys before it tell which.
        assert_eq!(unforeseen(&[INSERT, KEY, KEY, KEY].repeat(5)), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn the_low_bits_of_the_operation_say_nothing_of_its_kind() {
        let flagged: Vec<_> = (0..12).map(|flags| (RmgrId::HEAP2, 0x20 | flags)).collect();
        assert_eq!(unforeseen(&flagged), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn one_exception_changes_no_expectation() {
        let kinds = [vec![INSERT; 10], vec![COMMIT], vec![INSERT; 10]].concat();
        // Behind it are four contexts that have not been there before.
        assert_eq!(unforeseen(&kinds), [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
        assert_eq!(unforeseen(&kinds.repeat(2)), [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 31]);
    }
}
