//! Chooses the images that are compressed to see what each method makes of them: a systematic sample of each
//! relation's fork, spread over the whole recording, since pages fill and change while it lasts.
//!
//! Of a fork every image is taken at first. When too many are held, the fork that holds the most lets go every
//! second one, and takes half as many from then on; so what is held is evenly spaced at any time.

use crate::images::Lengths;

/// Parts of the sample, one after the other in time, whose differences tell the error: images that follow each
/// other are alike, so single ones would promise too much (batch means).
const BATCHES: usize = 16;
/// Relative standard error of a single image, when no other tells how images differ.
const ALONE: f64 = 0.5;

/// Images of one fork that were compressed, in the order of the recording.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    held: Vec<Lengths>,
    /// One image in so many is taken.
    stride: u64,
    /// Images that pass until the next one.
    wait: u64,
}

impl Default for Drawn {
    fn default() -> Drawn {
        Drawn { held: Vec::new(), stride: 1, wait: 0 }
    }
}

impl Drawn {
    /// Whether the image that passes now is one to compress.
    pub(crate) fn wants(&mut self) -> bool {
        let wants = self.wait == 0;
        self.wait = if wants { self.stride - 1 } else { self.wait - 1 };
        wants
    }

    pub(crate) fn add(&mut self, lengths: Lengths) {
        self.held.push(lengths);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Lets every second image go.
    pub(crate) fn thin(&mut self) {
        let next_is_odd = self.held.len() % 2 == 1;
        let mut at = 0usize;
        self.held.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        // The next one would have been let go, too.
        self.wait += if next_is_odd { self.stride } else { 0 };
        self.stride *= 2;
    }

    /// Bytes without compression, and under each method.
    pub(crate) fn sums(&self) -> (u64, [u64; 3]) {
        self.held.iter().fold((0, [0; 3]), |(plain, mut bytes), image| {
            for (sum, length) in bytes.iter_mut().zip(image.compressed) {
                *sum += u64::from(length);
            }
            (plain + u64::from(image.plain), bytes)
        })
    }

    /// Standard error of the compressed bytes for these plain ones, as a share, by method; 0 without images.
    pub(crate) fn errors(&self) -> [f64; 3] {
        let (plain, bytes) = self.sums();
        let mut errors = [0.0; 3];
        for (method, (error, all)) in errors.iter_mut().zip(bytes).enumerate() {
            if all == 0 || plain == 0 {
                continue;
            }
            if self.held.len() < 2 {
                *error = ALONE;
                continue;
            }
            let ratio = all as f64 / plain as f64;
            let batches = BATCHES.min(self.held.len());
            let mut squares = 0.0;
            for batch in 0..batches {
                let (from, to) = (batch * self.held.len() / batches, (batch + 1) * self.held.len() / batches);
                let rest: f64 = self
                    .held
                    .iter()
                    .take(to)
                    .skip(from)
                    .map(|image| {
                        let length = image.compressed.get(method).copied().unwrap_or(0);
                        f64::from(length) - ratio * f64::from(image.plain)
                    })
                    .sum();
                squares += rest * rest;
            }
            *error = (squares * batches as f64 / (batches as f64 - 1.0)).sqrt() / all as f64;
        }
        errors
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn image(length: u16) -> Lengths {
        Lengths { plain: 8000, compressed: [length, 8000, 4000] }
    }

    /// A sample of at most `most` of these images.
    fn drawn(images: impl Iterator<Item = u16>, most: usize) -> Drawn {
        let mut drawn = Drawn::default();
        for length in images {
            if drawn.wants() {
                drawn.add(image(length));
                if drawn.len() > most {
                    drawn.thin();
                }
            }
        }
        drawn
    }

    #[test]
    fn what_is_held_is_evenly_spaced() {
        for count in [1u16, 63, 64, 65, 66, 127, 128, 129, 130, 1000, 5000] {
            let found = drawn(0..count, 64);
            let held: Vec<u16> = found.held.iter().map(|sample| sample.compressed[0]).collect();
            let expected: Vec<u16> = (0..count).step_by(found.stride as usize).collect();
            assert_eq!(held, expected, "{count}");
            assert!(held.len() <= 64 && (count < 65 || held.len() > 31), "{count}: {}", held.len());
        }
    }

    #[test]
    fn the_error_is_that_of_the_sample() {
        // Forged images of independent lengths, 300 times: the mean square of error by standard error is that of
        // Student's t with 15 degrees of freedom, 15/13, give or take the sample's share of all images.
        let mut state = 29u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1000 + ((state >> 33) % 3000) as u16
        };
        let mut squares = 0.0;
        for _ in 0..300 {
            let images: Vec<u16> = (0..3000).map(|_| next()).collect();
            let truth = images.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / 3000.0;
            let found = drawn(images.into_iter(), 256);
            let mean = found.sums().1[0] as f64 / found.len() as f64;
            squares += ((mean / truth - 1.0) / found.errors()[0]).powi(2);
        }
        assert!((0.7..1.6).contains(&(squares / 300.0)), "{}", squares / 300.0);
    }

    #[test]
    fn a_drift_is_in_the_error_and_what_never_varies_has_none() {
        let found = drawn((0..4000).map(|at| 1000 + at / 2), 256);
        // Of single images it would be 58 % of 2000 bytes by the root of some 200, below 2 %.
        assert!((0.05..0.15).contains(&found.errors()[0]), "{:?}", found.errors());
        assert_eq!(found.errors()[1..], [0.0, 0.0]);
        assert_eq!(drawn(std::iter::once(70), 9).errors()[0], ALONE);
        assert_eq!(Drawn::default().errors(), [0.0; 3]);
    }
}
