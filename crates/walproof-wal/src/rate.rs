//! How fast WAL was written: totals of each minute, told from the times in commit and abort records.
//!
//! The end of a transaction is written right after its time was taken, so what stands between two such records
//! was written in the minute of the second one, or little earlier. What follows the last one has no time.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::tally::Totals;
use crate::transaction::{Outcome, TransactionEnd};

const MINUTE_US: i64 = 60_000_000;

/// What was written in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// Records and images.
    pub totals: Totals,
    /// Transactions that committed.
    pub commits: u64,
}

impl AddAssign for Minute {
    fn add_assign(&mut self, other: Minute) {
        self.totals += other.totals;
        self.commits += other.commits;
    }
}

/// Totals by minute.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    minutes: BTreeMap<i64, Minute>,
    /// Minute of the first time that was found.
    first: Option<i64>,
    /// Written since the last time that was found.
    untimed: Totals,
}

impl Rate {
    /// (when the minute begins, in seconds since 1970; what was written), in order.
    pub fn minutes(&self) -> impl Iterator<Item = (i64, Minute)> + '_ {
        self.minutes.iter().map(|(&minute, &written)| (minute * 60, written))
    }

    /// What was written after the last commit or abort; everything when there was none.
    #[must_use]
    pub fn untimed(&self) -> Totals {
        self.untimed
    }

    /// From its parts, minutes counted since 1970; None where `first` is none of them.
    pub(crate) fn of(minutes: BTreeMap<i64, Minute>, first: Option<i64>, untimed: Totals) -> Option<Rate> {
        let is_known = match first {
            Some(first) => minutes.contains_key(&first),
            None => minutes.is_empty(),
        };
        is_known.then_some(Rate { minutes, first, untimed })
    }

    /// Minutes since 1970, and the minute of the first time that was found.
    pub(crate) fn parts(&self) -> (&BTreeMap<i64, Minute>, Option<i64>) {
        (&self.minutes, self.first)
    }

    #[inline]
    pub(crate) fn add(&mut self, totals: Totals) {
        self.untimed += totals;
    }

    pub(crate) fn add_end(&mut self, end: TransactionEnd) {
        let minute = end.time_unix_us.div_euclid(MINUTE_US);
        self.first.get_or_insert(minute);
        let commits = u64::from(end.outcome == Outcome::Commit);
        *self.minutes.entry(minute).or_default() +=
            Minute { totals: std::mem::take(&mut self.untimed), commits };
    }

    /// Adds the WAL that follows.
    pub(crate) fn append(&mut self, next: Rate) {
        let Some(first) = next.first else {
            self.untimed += next.untimed;
            return;
        };
        let before = std::mem::replace(&mut self.untimed, next.untimed);
        self.first.get_or_insert(first);
        *self.minutes.entry(first).or_default() += Minute { totals: before, commits: 0 };
        for (minute, written) in next.minutes {
            *self.minutes.entry(minute).or_default() += written;
        }
    }
}
