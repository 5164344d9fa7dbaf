//! WAL of several segments, read in order and in parts on several cores.

use std::fmt::Write;
use std::sync::Arc;

use walproof_wal::{Range, Reader, Segments, Stats};

use crate::forged::{wal, Script};

/// An option, then instructions: the parts give what reading in order gives, and end with the same words.
pub fn parallel(input: &[u8]) {
    let mut script = Script(input);
    let options = script.byte();
    let wal = wal(&mut script);
    let middle = wal.start.advance((wal.end - wal.start) / 2);
    let range = Range {
        start: (options & 1 != 0).then_some(middle),
        end: (options & 2 != 0).then_some(wal.end),
        allow_gaps: options & 4 != 0,
        ..Range::default()
    };
    let segments = Arc::new(Segments::from_memory(wal.segments));
    let in_order = totals(&segments, range, 1);
    assert_eq!(in_order, totals(&segments, range, 3));
    let Ok(mut reader) = Reader::open(segments, range) else { return };
    let mut records = 0u64;
    while let Ok(Some(_)) = reader.next_record() {
        records += 1;
    }
    let gaps: u64 = reader.gaps().iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(reader.accounting().total() + gaps, reader.end_lsn() - reader.first_lsn());
    assert!(in_order.starts_with(&format!("{records} {:?}", reader.accounting())), "{in_order}");
}

/// Everything that is counted, as text.
fn totals(segments: &Arc<Segments>, range: Range, threads: usize) -> String {
    let (stats, finish) = match Stats::read_until_error(Arc::clone(segments), range, threads) {
        Ok(read) => read,
        Err(error) => return format!("{error:?}"),
    };
    let mut text = format!("{} {:?} {finish:?}", stats.totals().records, stats.accounting);
    let mut relations: Vec<String> = stats
        .relations()
        .iter()
        .map(|row| format!("{:?}", (row.relation, row.fork, row.totals, row.method, row.distinct_blocks())))
        .collect();
    relations.sort();
    let minutes: Vec<_> = stats.rate().minutes().collect();
    let operations: Vec<_> = stats.by_operation().collect();
    let places = (stats.start, stats.end, stats.timeline, &stats.gaps);
    let rest = (stats.images(), stats.transactions(), stats.checkpoints(), stats.rate().untimed());
    let written = write!(text, "{places:?} {relations:?} {minutes:?} {operations:?} {rest:?}");
    assert!(written.is_ok());
    text
}
