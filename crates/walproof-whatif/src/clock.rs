//! What time it was at a place in the recording, if transactions do not tell.

use walproof_wal::Lsn;

/// Places whose time is known from elsewhere; between two of them WAL is taken to be written evenly.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Bytes of the recording (negative before it) and microseconds since 1970, both rising.
    ticks: Vec<(i64, i64)>,
    /// The tick at or after which the simulation is.
    at: usize,
}

impl Clock {
    /// None without times. Places that do not rise, or whose time does not, are left out.
    pub(crate) fn new(start: Lsn, times: &[(Lsn, i64)]) -> Option<Clock> {
        let mut ticks: Vec<(i64, i64)> = Vec::with_capacity(times.len());
        for (lsn, time_us) in times {
            let offset = lsn.0.wrapping_sub(start.0) as i64;
            if ticks.last().is_none_or(|last| last.0 < offset && last.1 <= *time_us) {
                ticks.push((offset, *time_us));
            }
        }
        (!ticks.is_empty()).then_some(Clock { ticks, at: 0 })
    }

    /// The time there; None before the first tick, and after the last one its time. Offsets have to rise.
    pub(crate) fn time_us(&mut self, offset: u64) -> Option<i64> {
        let offset = offset as i64;
        while self.ticks.get(self.at + 1).is_some_and(|next| next.0 <= offset) {
            self.at += 1;
        }
        let (from, from_us) = self.ticks.get(self.at).copied().filter(|tick| tick.0 <= offset)?;
        let Some((to, to_us)) = self.ticks.get(self.at + 1).copied() else { return Some(from_us) };
        let share = (offset - from) as f64 / (to - from) as f64;
        Some(from_us.saturating_add(((to_us as f64 - from_us as f64) * share) as i64))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn between_two_ticks_time_goes_on_evenly() {
        let times = [(Lsn(900), 5), (Lsn(1100), 25), (Lsn(1050), 30), (Lsn(1200), 20), (Lsn(1300), 125)];
        let mut clock = Clock::new(Lsn(1000), &times).unwrap();
        let found: Vec<Option<i64>> =
            [0, 50, 100, 200, 299, 300, 4000].into_iter().map(|offset| clock.time_us(offset)).collect();
        let expected = [15, 20, 25, 75, 124, 125, 125].map(Some);
        assert_eq!(found, expected);
    }

    #[test]
    fn before_the_first_tick_there_is_no_time() {
        let mut clock = Clock::new(Lsn(0), &[(Lsn(10), 7)]).unwrap();
        assert_eq!((clock.time_us(9), clock.time_us(10)), (None, Some(7)));
        assert!(Clock::new(Lsn(0), &[]).is_none());
    }
}
