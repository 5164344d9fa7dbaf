//! Which images a simulation compresses, found out before and without them: `Knowledge::learn_image` decides by the
//! order of the images of each fork alone.

use walproof_wal::{Forks, Lsn};

use crate::drawn::Drawn;
use crate::images::Lengths;
use crate::knowledge::SAMPLE;
use crate::ranges::digest::Digest;
use crate::samples::ForkSample;

/// An image by its record and the number of its reference.
pub(super) type Wanted = (Lsn, u8);

/// The draws of one simulation.
#[derive(Debug, Default)]
pub(super) struct Draw {
    forks: Forks,
    drawn: Vec<Drawn>,
    held: usize,
}

impl Draw {
    /// Forks of which images were told before have the first numbers.
    pub(super) fn new(samples: &[ForkSample]) -> Draw {
        let mut draw = Draw::default();
        for sample in samples {
            draw.forks.number(sample.relation, sample.fork);
        }
        draw
    }

    /// Goes through the images of a digest as long as `goes_on`; those that are wanted, and whether each is blank.
    pub(super) fn images(
        &mut self,
        digest: &Digest,
        is_learning: bool,
        goes_on: impl Fn(Lsn) -> bool,
    ) -> Vec<(Wanted, bool)> {
        let numbers: Vec<usize> = digest
            .forks
            .iter()
            .map(|(relation, fork)| self.forks.number(*relation, *fork) as usize)
            .collect();
        let mut wanted = Vec::new();
        for image in digest.images.iter().take_while(|image| goes_on(image.lsn)) {
            // What is there to check consistency is learned from before the simulation only.
            if image.is_checked && !is_learning {
                continue;
            }
            let Some(number) = numbers.get(image.fork as usize).copied() else { continue };
            if self.drawn.len() <= number {
                self.drawn.resize_with(number + 1, Drawn::default);
            }
            let Some(drawn) = self.drawn.get_mut(number) else { continue };
            if !drawn.wants() {
                continue;
            }
            wanted.push(((image.lsn, image.id), image.is_blank));
            if image.is_blank {
                continue;
            }
            drawn.add(Lengths { plain: 0, compressed: [0; 3] });
            self.held += 1;
            if self.held > SAMPLE {
                self.thin();
            }
        }
        wanted
    }

    /// As `Knowledge::thin`.
    fn thin(&mut self) {
        let Some(largest) = self.drawn.iter_mut().max_by_key(|drawn| drawn.len()) else { return };
        let count = largest.len();
        largest.thin();
        self.held -= count - largest.len();
    }
}
