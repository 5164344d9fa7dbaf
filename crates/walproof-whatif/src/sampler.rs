//! A sample of pages for recordings that touch more than memory should hold.
//!
//! Pages are chosen by a hash of their identity, so every reference to a chosen page is seen (spatial sampling:
//! Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015). Each relation's fork is a stratum with a
//! rate of its own, at first 1; when there are too many pages, the fork that holds the most loses half of them.
//! So small relations stay whole, and the number of pages stays below its limit whatever the recording.

use walproof_wal::ForkNumber;

/// Parts of the sample whose differences tell the error.
pub(crate) const GROUPS: usize = 16;

/// How much a reference to a chosen page counts, and for which part of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Pages that it stands for: 1, 2, 4 and so on.
    pub(crate) pages: i64,
    pub(crate) group: usize,
}

impl Weight {
    /// Of a page that stands for itself.
    pub(crate) const ONE: Weight = Weight { pages: 1, group: 0 };
}

#[derive(Clone, Copy, Debug, Default)]
struct Stratum {
    /// One page in `1 << halvings` is chosen.
    halvings: u32,
    held: u64,
}

/// Which pages are chosen.
#[derive(Debug)]
pub(crate) struct Sampler {
    strata: Vec<Stratum>,
    held: u64,
    most: u64,
}

impl Sampler {
    pub(crate) fn new(most_pages: u64) -> Sampler {
        Sampler { strata: Vec::new(), held: 0, most: most_pages.max(1) }
    }

    /// None for a page that is not chosen.
    pub(crate) fn weight(&self, fork: ForkNumber, block: u32) -> Option<Weight> {
        let hash = mix(fork, block);
        let halvings = self.strata.get(fork as usize).map_or(0, |stratum| stratum.halvings);
        is_chosen(hash, halvings).then_some(Weight {
            pages: 1 << halvings,
            group: if halvings == 0 { 0 } else { (hash >> 60) as usize % GROUPS },
        })
    }

    /// Counts a page that is new; the fork to thin out, if there are too many now.
    pub(crate) fn add(&mut self, fork: ForkNumber) -> Option<ForkNumber> {
        let at = fork as usize;
        if self.strata.len() <= at {
            self.strata.resize(at + 1, Stratum::default());
        }
        if let Some(stratum) = self.strata.get_mut(at) {
            stratum.held += 1;
            self.held += 1;
        }
        if self.held <= self.most {
            return None;
        }
        let (largest, stratum) =
            self.strata.iter_mut().enumerate().max_by_key(|(_, stratum)| stratum.held)?;
        stratum.halvings += 1;
        Some(largest as ForkNumber)
    }

    /// Whether the page is still chosen.
    pub(crate) fn holds(&self, fork: ForkNumber, block: u32) -> bool {
        self.weight(fork, block).is_some()
    }

    /// Takes note of how many pages of the fork are left.
    pub(crate) fn thinned(&mut self, fork: ForkNumber, held: u64) {
        if let Some(stratum) = self.strata.get_mut(fork as usize) {
            self.held = self.held - stratum.held + held;
            stratum.held = held;
        }
    }

    /// Pages that are held, and those that they stand for.
    pub(crate) fn pages(&self) -> (u64, u64) {
        (self.held, self.strata.iter().map(|stratum| stratum.held << stratum.halvings).sum())
    }
}

fn is_chosen(hash: u64, halvings: u32) -> bool {
    hash & ((1 << halvings) - 1) == 0
}

/// splitmix64: a weak hash would choose pages that lie in a pattern.
fn mix(fork: ForkNumber, block: u32) -> u64 {
    let mut hash = (u64::from(fork) << 32 | u64::from(block)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ hash >> 31
}

/// Standard error of a sum over groups.
pub(crate) fn standard_error(groups: &[i64; GROUPS]) -> f64 {
    let mean = groups.iter().sum::<i64>() as f64 / GROUPS as f64;
    let squares: f64 = groups.iter().map(|group| (*group as f64 - mean).powi(2)).sum();
    (squares * GROUPS as f64 / (GROUPS as f64 - 1.0)).sqrt()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fork_loses_half_and_a_small_one_none() {
        let mut sampler = Sampler::new(1000);
        let mut held: Vec<(u32, u32)> = Vec::new();
        for (fork, blocks) in [(0, 100), (1, 100_000)] {
            for block in 0..blocks {
                if sampler.weight(fork, block).is_none() {
                    continue;
                }
                held.push((fork, block));
                if let Some(thin) = sampler.add(fork) {
                    held.retain(|&(fork, block)| sampler.holds(fork, block));
                    let left = held.iter().filter(|page| page.0 == thin).count();
                    sampler.thinned(thin, left as u64);
                }
                assert!(held.len() <= 1000, "{}", held.len());
            }
        }
        let (count, stands_for) = sampler.pages();
        assert_eq!(count, held.len() as u64);
        assert_eq!(held.iter().filter(|page| page.0 == 0).count(), 100);
        assert_eq!(sampler.weight(0, 7).map(|weight| weight.pages), Some(1));
        assert!((90_000..110_000).contains(&stands_for), "{stands_for}");
    }

    /// Counts pages that come one after the other, from those that are chosen; the error in standard errors.
    fn error_of_a_count(fork: u32, blocks: u32) -> f64 {
        let mut sampler = Sampler::new(500);
        let mut held: Vec<u32> = Vec::new();
        let (mut count, mut groups) = (0i64, [0i64; GROUPS]);
        for block in 0..blocks {
            let Some(weight) = sampler.weight(fork, block) else { continue };
            count += weight.pages;
            if weight.pages > 1 {
                groups[weight.group] += weight.pages;
            }
            held.push(block);
            if sampler.add(fork).is_some() {
                held.retain(|block| sampler.holds(fork, *block));
                sampler.thinned(fork, held.len() as u64);
            }
        }
        (count - i64::from(blocks)) as f64 / standard_error(&groups)
    }

    #[test]
    fn counts_are_right_on_average_and_as_far_off_as_is_told() {
        let errors: Vec<f64> = (0..300).map(|fork| error_of_a_count(fork, 12_000)).collect();
        let mean = errors.iter().sum::<f64>() / 300.0;
        let square = errors.iter().map(|error| error * error).sum::<f64>() / 300.0;
        // Student's t with 15 degrees of freedom has a variance of 15/13; the mean of 300 a standard error of 0.06.
        assert!(mean.abs() < 0.2, "{mean}");
        assert!((0.9..1.5).contains(&square), "{square}");
    }

    #[test]
    fn the_error_is_that_of_the_sum() {
        assert_eq!(standard_error(&[5; GROUPS]), 0.0);
        // Groups of 16 independent numbers of variance 1 each: their sum has a standard error of 4.
        let mut groups = [1; GROUPS];
        groups.iter_mut().step_by(2).for_each(|group| *group = -1);
        assert!((standard_error(&groups) - 4.13).abs() < 0.01);
    }
}
