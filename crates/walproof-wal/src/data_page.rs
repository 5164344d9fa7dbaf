//! Pages of relations: whether one is whole, by its checksum.
//!
//! Source: `src/include/storage/checksum_impl.h` (`pg_checksum_page`) and `src/backend/storage/page/bufpage.c`
//! (`PageIsVerified`), the same from 13 to 19. Pages of 8 kB, as PostgreSQL is built by default.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;

const SUMS: usize = 32;
const PRIME: u32 = 16_777_619;
/// Start values of the sums, chosen at random by the authors of the algorithm.
const OFFSETS: [u32; SUMS] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];
const CHECKSUM_AT: usize = 8;
const UPPER_AT: usize = 14;

fn mixed(sum: u32, value: u32) -> u32 {
    let turned = sum ^ value;
    turned.wrapping_mul(PRIME) ^ (turned >> 17)
}

/// The checksum that a page of that block number should hold.
#[must_use]
pub fn checksum(page: &[u8; PAGE_BYTES], block: u32) -> u16 {
    let mut sums = OFFSETS;
    for (row, words) in page.chunks_exact(4 * SUMS).enumerate() {
        for (column, (sum, word)) in sums.iter_mut().zip(words.chunks_exact(4)).enumerate() {
            let mut value = word.try_into().map_or(0, u32::from_le_bytes);
            if 4 * (row * SUMS + column) == CHECKSUM_AT {
                // The field itself counts as zero; what shares its word does not.
                value &= 0xFFFF_0000;
            }
            *sum = mixed(*sum, value);
        }
    }
    let folded = sums.iter().fold(0, |all, sum| all ^ mixed(mixed(*sum, 0), 0));
    // One more than a remainder: zero means that there is no checksum.
    u16::try_from((folded ^ block) % 65_535 + 1).unwrap_or(u16::MAX)
}

/// Whether a page is whole: its checksum is right, or it was never used and is all zeros.
#[must_use]
pub fn is_whole(page: &[u8; PAGE_BYTES], block: u32) -> bool {
    let field =
        |at: usize| page.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_le_bytes);
    if field(UPPER_AT) == 0 {
        return page.iter().all(|byte| *byte == 0);
    }
    field(CHECKSUM_AT) == checksum(page, block)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_contents_is_whole_and_rubbish_is_not() {
        let mut page = [0; PAGE_BYTES];
        assert!(is_whole(&page, 7));
        page[100] = 1;
        assert!(!is_whole(&page, 7));
    }

    #[test]
    fn every_half_and_every_neighbour_counts() {
        let mut page = [0; PAGE_BYTES];
        page[UPPER_AT] = 24;
        let sum = checksum(&page, 3);
        page[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_le_bytes());
        assert!(is_whole(&page, 3));
        assert!(!is_whole(&page, 4));
        for at in [0, 10, 4095, 4096, 8191] {
            let mut torn = page;
            torn[at] ^= 1;
            assert!(!is_whole(&torn, 3), "{at}");
        }
    }
}
