//! Where recovery would begin: the redo point of the last checkpoint that was complete.

use std::sync::Arc;

use walproof_wal::{Checkpoint, Error, Lsn, Range, Reader, Segments, Stats};

/// How many segments are read at once, from the end backwards.
const CHUNK_BYTES: u64 = 128 << 20;
/// No checkpoint record is longer, so one that begins in a chunk ends within so many bytes after it.
const OVERLAP_BYTES: u64 = 2 * 8192;

/// The last checkpoint of the recording, looked for from its end backwards on so many threads; None when it holds
/// none. WAL that cannot be read (recycled segments after the end, a gap) holds none.
///
/// # Errors
/// As [`Reader::open`]; [`Error::Interrupted`].
pub fn last_checkpoint(
    segments: &Arc<Segments>,
    range: Range,
    threads: usize,
) -> Result<Option<Checkpoint>, Error> {
    let reader = Reader::open(Arc::clone(segments), range)?;
    let size = reader.identity().segment_size;
    let first = reader.first_lsn();
    let end = segments.names().filter_map(|name| name.start(size)).max().unwrap_or(first);
    let end = end.advance(u64::from(size));
    let mut high = range.end.map_or(end, |asked| asked.min(end));
    while high > first {
        let low = Lsn(high.0.saturating_sub(CHUNK_BYTES)).align_down(u64::from(size)).max(first);
        let stop = Lsn(high.0.saturating_add(OVERLAP_BYTES));
        let part = Range {
            start: Some(low),
            end: Some(range.end.map_or(stop, |asked| asked.min(stop))),
            timeline: range.timeline,
            allow_gaps: true,
        };
        match Stats::read_until_error(Arc::clone(segments), part, threads) {
            Err(Error::Interrupted) | Ok((_, Err(Error::Interrupted))) => return Err(Error::Interrupted),
            Ok((stats, _)) => {
                if let Some(last) = stats.checkpoints().last() {
                    return Ok(Some(*last));
                }
            }
            Err(_) => {}
        }
        high = low;
    }
    Ok(None)
}
