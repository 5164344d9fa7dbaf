//! What one simulated server did.

use walproof_wal::{named_fields, Lsn};

use crate::lane::{Lane, Mark, Now};
use crate::position::Positions;
use crate::sampler::standard_error;

named_fields! {
    /// Whole checkpoint cycles: from the first redo point to the last one.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Cycles {
        /// How many.
        pub count: u64,
        /// WAL in them, as a distance of locations.
        pub wal_bytes: u64,
        /// Their images.
        pub images: u64,
        /// What the same records take without any image.
        pub base_bytes: u64,
        /// Time that they took; None without times.
        pub seconds: Option<f64>,
        /// Of them, those so short that the checkpoint before was hardly complete.
        pub late: u64,
        /// Standard error of `wal_bytes` for these records, as a share, from how cycles differ; None of fewer than
        /// two.
        pub error: Option<f64>,
    }
}

named_fields! {
    /// A simulated server, from the beginning of the recording to its end.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Outcome {
        /// WAL, as a distance of locations. A checkpoint begins with the recording (unless the target has a phase).
        pub wal_bytes: u64,
        /// What the same records take without any image.
        pub base_bytes: u64,
        /// Full-page images.
        pub images: u64,
        /// Their bytes.
        pub image_bytes: u64,
        /// Of them, those of pages that the recording had not touched before: whether the server had touched them
        /// since its redo point is not known.
        pub first_images: u64,
        /// Their bytes.
        pub first_image_bytes: u64,
        /// Of the images, those whose size is the mean of others.
        pub guessed_images: u64,
        /// Standard error of `wal_bytes` that comes of sampling pages; 0 where all were held.
        pub sample_error_bytes: f64,
        /// Checkpoints because of `max_wal_size`.
        pub by_size: u64,
        /// Checkpoints because of `checkpoint_timeout`.
        pub by_time: u64,
        /// Whole cycles.
        pub cycles: Cycles,
        /// WAL that recovery would read: mean over the WAL, and most.
        pub distance_mean: f64,
        /// The most.
        pub distance_most: u64,
        /// Where recovery from a crash at the end would begin, in bytes of the recording after its start.
        pub crash_offset: u64,
        /// Most bytes of segments in `pg_wal`, without slots, `wal_keep_size` or an archiver that lags.
        pub pg_wal_most: u64,
    }
}

impl Outcome {
    pub(crate) fn new(mut lane: Lane, start: Lsn, now: Now, positions: Positions) -> Outcome {
        let (distance_mean, crash_offset) = lane.finish(now, positions);
        let distance = |from: u64, to: u64| positions.end_lsn(to) - positions.end_lsn(from);
        let cycles = match (lane.first_redo, lane.last_redo) {
            (Some(first), Some(last)) if lane.cycles > 0 => Cycles {
                count: lane.cycles,
                wal_bytes: distance(first.usable, last.usable),
                images: last.images - first.images,
                base_bytes: distance(first.now.base_usable, last.now.base_usable),
                seconds: seconds(first, last),
                late: lane.late_cycles,
                error: lane.spread.error(),
            },
            _ => Cycles::default(),
        };
        Outcome {
            wal_bytes: positions.end_lsn(lane.usable(now)) - start,
            base_bytes: positions.end_lsn(now.base_usable) - start,
            images: lane.images,
            image_bytes: lane.image_bytes,
            first_images: lane.first_images,
            first_image_bytes: lane.first_image_bytes,
            guessed_images: lane.guessed_images,
            sample_error_bytes: standard_error(&lane.sampled),
            by_size: lane.by_size,
            by_time: lane.by_time,
            cycles,
            distance_mean,
            distance_most: lane.distance_most,
            crash_offset,
            pg_wal_most: lane.segments_most * positions.segment_size(),
        }
    }
}

fn seconds(first: Mark, last: Mark) -> Option<f64> {
    // Damage can put any number where a time stands.
    Some(last.now.time_us?.saturating_sub(first.now.time_us?) as f64 / 1e6)
}
