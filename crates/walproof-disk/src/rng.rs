//! Random numbers from a seed: the same seed gives the same image on every machine and version.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A sequence of its own for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `0..bound`; 0 when the bound is 0. The bias, below bound / 2^64, does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True with this probability; 0 is never, 1 is always.
    pub fn chance(&mut self, probability: f64) -> bool {
        #[allow(clippy::cast_precision_loss)] // 53 bits fit
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }
}

/// One round of mixing: neighbouring numbers become unrelated ones.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_paper() {
        // Reference values of splitmix64.c for seed 1234567 (prng.di.unimi.it).
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn chance_has_its_ends() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!(!(0..1000).any(|_| rng.chance(0.0)));
        let half = (0..10_000).filter(|_| rng.chance(0.5)).count();
        assert!((4800..5200).contains(&half), "{half}");
    }
}
