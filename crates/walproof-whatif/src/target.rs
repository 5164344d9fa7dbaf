//! The settings to simulate: what decides when a checkpoint begins and what an image costs.

use walproof_wal::Compression;

const MEGABYTE: u64 = 1 << 20;

/// How images are stored (`wal_compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageCompression {
    /// As the recording has them.
    AsRecorded,
    /// Not compressed.
    Off,
    /// Compressed by that method.
    Method(Compression),
}

impl ImageCompression {
    /// Number of different ways.
    pub(crate) const COUNT: usize = 5;

    /// Place of this way in arrays of [`ImageCompression::COUNT`].
    pub(crate) fn index(self) -> usize {
        match self {
            ImageCompression::AsRecorded => 0,
            ImageCompression::Off => 1,
            ImageCompression::Method(Compression::Pglz) => 2,
            ImageCompression::Method(Compression::Lz4) => 3,
            ImageCompression::Method(Compression::Zstd) => 4,
        }
    }
}

/// The settings of one simulated server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// `max_wal_size` in megabytes; None for a server that never begins a checkpoint because of it.
    pub max_wal_size_mb: Option<u64>,
    /// `min_wal_size` in megabytes: how much is recycled at least.
    pub min_wal_size_mb: u64,
    /// `checkpoint_timeout` in seconds; None for never.
    pub checkpoint_timeout_s: Option<u64>,
    /// `checkpoint_completion_target`: 0.5 by default in 13, 0.9 from 14.
    pub completion_target: f64,
    /// `full_page_writes`.
    pub full_page_writes: bool,
    /// `wal_compression`.
    pub compression: ImageCompression,
    /// Whether setting a hint bit writes WAL, as with checksums or `wal_log_hints`. A recording without such
    /// records cannot tell what they would be: then it makes no difference.
    pub hint_records: bool,
    /// Whether the keys of [`crate::Request::ordered`] come in order, each larger than those before.
    pub ordered_keys: bool,
    /// Share of the first cycle that was over when the recording began: 0 for a checkpoint right there.
    pub phase: f64,
    /// Segments by which a checkpoint begins late, because the one before is not yet complete.
    pub late_segments: u64,
}

impl Default for Target {
    /// The defaults of PostgreSQL 14 and later; images as recorded.
    fn default() -> Target {
        Target {
            max_wal_size_mb: Some(1024),
            min_wal_size_mb: 80,
            checkpoint_timeout_s: Some(300),
            completion_target: 0.9,
            full_page_writes: true,
            compression: ImageCompression::AsRecorded,
            hint_records: true,
            ordered_keys: false,
            phase: 0.0,
            late_segments: 0,
        }
    }
}

impl Target {
    /// Segments from a redo point to the one that triggers the next checkpoint (`CalculateCheckpointSegments`,
    /// src/backend/access/transam/xlog.c; the same in 13 to 18): whole segments in `max_wal_size`, divided by
    /// one more than the completion target, rounded down, at least 1. None when size never triggers.
    #[must_use]
    pub fn checkpoint_segments(&self, segment_size: u32) -> Option<u64> {
        let whole = segments_in(self.max_wal_size_mb?, segment_size);
        let wanted = whole as f64 / (1.0 + self.completion_target.clamp(0.0, 1.0));
        Some((wanted as u64).max(1) + self.late_segments)
    }

    /// `max_wal_size` in whole segments.
    pub(crate) fn most_segments(&self, segment_size: u32) -> u64 {
        self.max_wal_size_mb.map_or(u64::MAX / 4, |megabytes| segments_in(megabytes, segment_size))
    }

    /// `min_wal_size` in whole segments.
    pub(crate) fn least_segments(&self, segment_size: u32) -> u64 {
        segments_in(self.min_wal_size_mb, segment_size)
    }
}

/// `ConvertToXSegs`.
fn segments_in(megabytes: u64, segment_size: u32) -> u64 {
    megabytes / (u64::from(segment_size) / MEGABYTE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_segments_round_down_twice() {
        let with = |megabytes, completion_target| Target {
            max_wal_size_mb: Some(megabytes),
            completion_target,
            ..Target::default()
        };
        let sixteen = 16 << 20;
        // max_wal_size, completion target, segments of 16 MB between redo point and trigger
        for (megabytes, completion, expected) in [
            (64, 0.9, 2),
            (128, 0.9, 4),
            (256, 0.9, 8),
            (512, 0.9, 16),
            (1024, 0.9, 33),
            (1024, 0.5, 42),
            (32, 0.9, 1),
            (2, 0.9, 1),
            (47, 0.5, 1),
            (64, 1.0, 2),
        ] {
            let target = with(megabytes, completion);
            assert_eq!(target.checkpoint_segments(sixteen), Some(expected), "{megabytes} MB, {completion}");
        }
        assert_eq!(with(1024, 0.9).checkpoint_segments(1 << 20), Some(538));
        let none = Target { max_wal_size_mb: None, ..Target::default() };
        assert_eq!(none.checkpoint_segments(sixteen), None);
    }
}
