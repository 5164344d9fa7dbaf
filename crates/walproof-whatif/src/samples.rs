//! What images told before they were blanked out: how well each method compresses those of each relation, so that a
//! recording without contents can still be asked about `wal_compression`.

use walproof_wal::{Record, RelFileLocator};

use crate::knowledge::Knowledge;

/// Images of a relation's fork that were compressed to see.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForkSample {
    /// The relation.
    pub relation: RelFileLocator,
    /// Its fork.
    pub fork: u8,
    /// Images.
    pub count: u64,
    /// Their bytes without compression.
    pub plain_bytes: u64,
    /// What each method made of them, in the order of `Compression::ALL`.
    pub bytes: [u64; 3],
    /// Standard error of each of them, as a share of it, that comes of compressing some images of the fork.
    pub errors: [f64; 3],
    /// Line pointers of images that were stored compressed: what is not compressed tells them by itself.
    pub pointers: u64,
    /// Bytes of their tuples.
    pub pointed_bytes: u64,
}

/// Samples the images of records that pass by, as `simulate` does.
pub struct ImageSampler<'a> {
    knowledge: Knowledge<'a>,
    forks: Vec<(RelFileLocator, u8)>,
}

impl<'a> ImageSampler<'a> {
    /// `clock` gives nanoseconds.
    #[must_use]
    pub fn new(clock: &'a (dyn Fn() -> u64 + Sync)) -> ImageSampler<'a> {
        ImageSampler { knowledge: Knowledge::new(clock), forks: Vec::new() }
    }

    /// Takes note of a record's images.
    pub fn look(&mut self, record: &Record<'_>) {
        for block in record.blocks {
            if block.image.is_some() {
                let number = self.knowledge.forks.number(block.relation, block.fork);
                if number as usize == self.forks.len() {
                    self.forks.push((block.relation, block.fork));
                }
                self.knowledge.learn_image(record, block, number);
            }
        }
    }

    /// What the images of each fork told, and nanoseconds by method.
    #[must_use]
    pub fn found(&self) -> (Vec<ForkSample>, [u64; 3]) {
        let samples = (0..).zip(&self.forks).filter_map(|(number, (relation, fork))| {
            let sample = self.knowledge.fork_sample(number)?;
            Some(ForkSample { relation: *relation, fork: *fork, ..sample })
        });
        (samples.collect(), self.knowledge.nanoseconds())
    }
}

impl std::fmt::Debug for ImageSampler<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ImageSampler").field("forks", &self.forks.len()).finish_non_exhaustive()
    }
}
