//! What is asked of a recording.

use walproof_wal::Lsn;

use crate::samples::ForkSample;
use crate::target::Target;

/// Servers to simulate, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The servers.
    pub targets: &'a [Target],
    /// Times at places of the recording, rising, in microseconds since 1970. Empty: the ends of transactions tell
    /// the time; otherwise these do alone, since their clock may be another one.
    pub times: &'a [(Lsn, i64)],
    /// Pages to hold in memory at most: a sample where there are more, whose error is told. None: all of them.
    pub most_pages: Option<u64>,
    /// What images told before they were blanked out, and nanoseconds that each method took for them: of recordings
    /// without contents.
    pub samples: (&'a [ForkSample], [u64; 3]),
    /// Numbers of the relations (relfilenodes) that are B-trees whose keys come in order where a target says so.
    pub ordered: &'a [u32],
    /// Gives nanoseconds; only tells how long compressing took.
    pub clock: &'a (dyn Fn() -> u64 + Sync),
}

impl<'a> Request<'a> {
    /// These servers, with the time that transactions tell.
    #[must_use]
    pub fn new(targets: &'a [Target]) -> Request<'a> {
        Request { targets, times: &[], most_pages: None, samples: (&[], [0; 3]), ordered: &[], clock: &|| 0 }
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Request")
            .field("targets", &self.targets)
            .field("times", &self.times.len())
            .field("most_pages", &self.most_pages)
            .finish_non_exhaustive()
    }
}
