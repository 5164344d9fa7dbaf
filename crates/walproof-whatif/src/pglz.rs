//! Bytes that PostgreSQL's own compression makes of a page.
//!
//! The format is that of src/common/pg_lzcompress.c: control bytes of 8 bits, a literal byte for a 0 and for a 1 a
//! tag of 2 bytes (match of 3 to 17 bytes up to 4094 back) or 3 (up to 273 bytes). Which matches are found is part of
//! the result's length, so the same are looked for: those whose next 4 bytes hash alike, newest first, until
//! one is long enough; long enough is 128 bytes at first and a tenth less with each candidate.

const LISTS: usize = 8192;
const LONGEST_MATCH: usize = 273;
const FARTHEST: usize = 0x0FFF;
/// A result must be a quarter smaller than the page.
const SAVING_LEAST_PERCENT: usize = 25;
/// Nothing found in so many bytes: given up.
const FIRST_SUCCESS_BY: usize = 1024;
const GOOD_MATCH: usize = 128;
const GOOD_MATCH_DROP_PERCENT: usize = 10;
const SHORTEST_INPUT: usize = 32;
const NONE: u32 = u32::MAX;

/// Bytes of the result; None where the server would store the page as it is.
#[derive(Debug)]
pub(crate) struct Pglz {
    /// Newest position by hash.
    newest: Vec<u32>,
    /// The position before, of the same hash.
    older: Vec<u32>,
}

impl Pglz {
    pub(crate) fn new() -> Pglz {
        Pglz { newest: vec![NONE; LISTS], older: Vec::new() }
    }

    pub(crate) fn compressed_length(&mut self, source: &[u8]) -> Option<usize> {
        if source.len() < SHORTEST_INPUT {
            return None;
        }
        let most = source.len() * (100 - SAVING_LEAST_PERCENT) / 100;
        let lists = lists_for(source.len());
        self.newest.iter_mut().for_each(|newest| *newest = NONE);
        self.older.clear();
        self.older.resize(source.len(), NONE);
        let (mut at, mut length, mut items, mut has_match) = (0, 0, 0usize, false);
        while at < source.len() {
            if length >= most || (!has_match && length >= FIRST_SUCCESS_BY) {
                return None;
            }
            if items % 8 == 0 {
                length += 1;
            }
            items += 1;
            let found = self.longest_match(source, at, lists);
            let covered = if found > 2 {
                has_match = true;
                length += if found > 17 { 3 } else { 2 };
                found
            } else {
                length += 1;
                1
            };
            for position in at..at + covered {
                self.remember(source, position, lists);
            }
            at += covered;
        }
        (length < most).then_some(length)
    }

    fn longest_match(&self, source: &[u8], at: usize, lists: usize) -> usize {
        let mut good_match = GOOD_MATCH;
        let mut longest = 0;
        let input = source.get(at..).unwrap_or_default();
        let mut candidate = self.newest.get(hash(input, lists)).copied().unwrap_or(NONE);
        while candidate != NONE {
            let from = candidate as usize;
            if at - from >= FARTHEST {
                break;
            }
            let earlier = source.get(from..).unwrap_or_default();
            let length = input.iter().zip(earlier).take(LONGEST_MATCH).take_while(|(a, b)| a == b).count();
            longest = longest.max(length);
            candidate = self.older.get(from).copied().unwrap_or(NONE);
            if candidate != NONE {
                if longest >= good_match {
                    break;
                }
                good_match -= good_match * GOOD_MATCH_DROP_PERCENT / 100;
            }
        }
        longest
    }

    fn remember(&mut self, source: &[u8], position: usize, lists: usize) {
        let list = hash(source.get(position..).unwrap_or_default(), lists);
        if let (Some(newest), Some(older)) = (self.newest.get_mut(list), self.older.get_mut(position)) {
            *older = *newest;
            *newest = position as u32;
        }
    }
}

fn lists_for(length: usize) -> usize {
    match length {
        0..=127 => 512,
        128..=255 => 1024,
        256..=511 => 2048,
        512..=1023 => 4096,
        _ => LISTS,
    }
}

/// The list of the next 4 bytes, which count as signed; of the next one where fewer are left.
fn hash(input: &[u8], lists: usize) -> usize {
    let value = match input {
        [a, b, c, d, ..] => {
            let signed = |byte: u8| i32::from(byte as i8);
            (signed(*a) << 6) ^ (signed(*b) << 4) ^ (signed(*c) << 2) ^ signed(*d)
        }
        [a, ..] => i32::from(*a as i8),
        [] => 0,
    };
    value as usize & (lists - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_shrink_by_a_quarter_is_left_alone() {
        let mut pglz = Pglz::new();
        let mut state = 1u32;
        let noise: Vec<u8> = (0..8000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        assert_eq!(pglz.compressed_length(&noise), None);
        assert_eq!(pglz.compressed_length(&[7; 31]), None);
        // One literal, then matches of 273 bytes: 3 bytes each and a control byte for 8 items.
        let zeros = vec![0; 1 + 273 * 16];
        assert_eq!(pglz.compressed_length(&zeros), Some(1 + 16 * 3 + 3));
    }
}
