//! Timeline history files: which timeline branched off which, and where.
//!
//! `00000003.history` has a line for each ancestor of timeline 3, oldest first: the ancestor's number, the LSN up
//! to which it belongs to the history, and a reason (`readTimeLineHistory`,
//! src/backend/access/transam/timeline.c).

use std::collections::BTreeMap;

use crate::lsn::Lsn;

/// The ancestors of one timeline: (timeline, where the WAL leaves it), oldest first.
type Ancestors = Vec<(u32, Lsn)>;

/// The histories at hand, by timeline.
#[derive(Clone, Debug, Default)]
pub(super) struct Histories(BTreeMap<u32, Ancestors>);

impl Histories {
    /// Adds the history of `timeline`.
    ///
    /// # Errors
    /// Number of the line (from 1) that is none of a history's, or out of order.
    pub(super) fn add(&mut self, timeline: u32, text: &str) -> Result<(), usize> {
        let mut ancestors: Ancestors = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let ancestor = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(number)?;
            let end = words.next().and_then(|word| word.parse::<Lsn>().ok()).ok_or(number)?;
            let follows = ancestors.last().is_none_or(|&(last, at)| last < ancestor && at <= end);
            if !follows || ancestor >= timeline {
                return Err(number);
            }
            ancestors.push((ancestor, end));
        }
        self.0.insert(timeline, ancestors);
        Ok(())
    }

    /// Each history, as the text of a file that gives no reasons: those may be names of restore points.
    pub(super) fn texts(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        self.0.iter().map(|(timeline, ancestors)| {
            let lines = ancestors.iter().map(|(ancestor, end)| format!("{ancestor}\t{end}\t-\n"));
            (*timeline, lines.collect())
        })
    }

    /// Whether a segment (`start` to `end`) of `timeline` belongs to the history of `target`: the WAL was on that
    /// timeline somewhere in it. Everything does when no history of `target` is at hand.
    pub(super) fn holds(&self, target: u32, timeline: u32, start: Lsn, end: Lsn) -> bool {
        let Some(ancestors) = self.0.get(&target) else {
            return true;
        };
        let mut from = Lsn(0);
        for &(ancestor, to) in ancestors {
            if ancestor == timeline {
                return from < end && start < to;
            }
            from = to;
        }
        timeline == target && from < end
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_where_the_history_was_on_it() {
        let mut histories = Histories::default();
        let text = "# comment\n1\t0/3000100\tno recovery target specified\n\n2\t0/5000000\tbefore 2026\n";
        histories.add(4, text).unwrap();
        let segment = |number: u64| (Lsn(number << 24), Lsn((number + 1) << 24));
        let on = |timeline, number| {
            let (start, end) = segment(number);
            histories.holds(4, timeline, start, end)
        };
        assert!(on(1, 2) && on(1, 3) && !on(1, 4), "it leaves timeline 1 within segment 3");
        assert!(!on(2, 2) && on(2, 3) && on(2, 4) && !on(2, 5), "and timeline 2 at the start of segment 5");
        assert!(!on(3, 4), "timeline 3 is no ancestor");
        assert!(on(4, 5) && on(4, 9) && !on(4, 4));
        let texts: Vec<_> = histories.texts().collect();
        assert_eq!(texts, [(4, "1\t0/3000100\t-\n2\t0/5000000\t-\n".to_owned())]);
        assert!(histories.holds(3, 2, Lsn(0), Lsn(1)), "without a history anything may be");
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("1", 1),
            ("1\t0/1000\tx\nx\t0/2000", 2),
            ("2\t0/10\n1\t0/20", 2),
            ("1 0/20\n2 0/10", 2),
            ("7 0/1", 1),
        ] {
            assert_eq!(Histories::default().add(5, text), Err(line), "{text}");
        }
        assert_eq!(Histories::default().add(5, ""), Ok(()));
    }
}
