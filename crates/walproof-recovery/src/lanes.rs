//! Sizes of `shared_buffers` that are simulated together: a lane each.

/// How many: what is known of a page in one of them is a byte of a word.
pub(crate) const LANES: usize = 8;

/// The lowest bit of each byte.
pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;

/// A number for each size, such as that of the buffer that has a page.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Frames(pub(crate) [u32; LANES]);
