//! Sizes of `shared_buffers` that are simulated together: each is a lane, and what is known in it is a byte
//! of a word.

/// How many.
pub(crate) const LANES: usize = 8;

/// The lowest bit of each byte: of every lane, where bits stand for lanes.
pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;

/// The bit of a lane.
#[inline]
pub(crate) fn bit(lane: usize) -> u64 {
    1 << (8 * lane)
}

/// The numbers of the lanes whose bit is there.
#[inline]
pub(crate) fn each(mut lanes: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (lanes != 0).then(|| {
            let lane = lanes.trailing_zeros() as usize / 8;
            lanes &= lanes - 1;
            lane
        })
    })
}
