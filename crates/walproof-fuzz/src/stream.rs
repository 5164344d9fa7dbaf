//! WAL that arrives: however its bytes are cut, the same answers, and those of the same WAL read as files.

use walproof_recovery::{analyse, Live, LivePlan, Plan, Snapshot, State};
use walproof_wal::{Lsn, Range, Segments};

use crate::forge::SEGMENT_SIZE;
use crate::forged::{joined, used, wal, Script};

const BUFFERS: [u32; 3] = [16, 20, 64];

/// Options, then instructions. The first byte is the length of pieces, the second where it begins, the third what else is
/// done.
pub fn stream(input: &[u8]) {
    let mut script = Script(input);
    let (piece, skipped, options) = (script.byte(), script.byte(), script.byte());
    let wal = wal(&mut script);
    let names: Vec<_> = wal.segments.iter().map(|(name, _)| *name).collect();
    let Some(start) = names.first().and_then(|name| name.start(SEGMENT_SIZE)) else { return };
    let mut bytes = joined(&wal.segments);
    if options & 2 == 0 {
        bytes.truncate(used(&bytes));
    }
    let from = (usize::from(skipped) * 97).min(bytes.len());
    let told = (options & 1 != 0).then_some(wal.start);
    let (whole, is_wal) = fed(start, bytes.get(from..).unwrap_or_default(), from, usize::MAX, told);
    let (cut, is_cut_wal) =
        fed(start, bytes.get(from..).unwrap_or_default(), from, 1 + usize::from(piece) * 37, told);
    assert_eq!((&whole.0, is_wal), (&cut.0, is_cut_wal));
    assert_eq!(whole.1, cut.1);
    let Some(clock) = whole.0.clock.filter(|_| whole.0.state == State::Known) else { return };
    assert!(clock.work.runs <= clock.work.dirty && clock.work.dirty <= clock.work.pages);
    // As files, which are as whole as what arrived.
    let range = Range { start: whole.0.redo, end: Some(clock.end), ..Range::default() };
    let plan = Plan { buffers: BUFFERS.to_vec(), read_ahead: 16, ..Plan::default() };
    if let Ok(found) = analyse(Segments::from_memory(wal.segments), range, &plan) {
        let last = found.last();
        if found.start == clock.start && last.end == clock.end && found.gaps.is_empty() {
            assert_eq!(last.work, clock.work);
            assert_eq!((&last.pools, &last.pools_off), (&clock.pools, &clock.pools_off));
        }
    }
}

/// What there is after all bytes, of which the first are left out; and whether they were WAL.
fn fed(
    start: Lsn,
    bytes: &[u8],
    skipped: usize,
    piece: usize,
    told: Option<Lsn>,
) -> ((Snapshot, String), bool) {
    let plan = LivePlan {
        buffers: BUFFERS.to_vec(),
        read_ahead: 16,
        redo: told,
        relations: 2,
        trace_bytes: 1 << 20,
        ..LivePlan::default()
    };
    let Ok(mut live) = Live::new(SEGMENT_SIZE, plan) else { unreachable!("there is no folder") };
    let mut at = start.advance(skipped as u64);
    let mut is_wal = true;
    for piece in bytes.chunks(piece.clamp(1, bytes.len().max(1))) {
        is_wal &= live.observe(at, piece).is_ok();
        at = at.advance(piece.len() as u64);
        // In the middle, too, which changes nothing.
        live.snapshot();
        while live.recompute(1) {}
        if !is_wal {
            break;
        }
    }
    let causes = format!("{:?} {:?}", live.causes(), live.gaps());
    let snapshot = live.snapshot();
    // How much was taken before an error depends on the pieces.
    ((Snapshot { received: Lsn(0), memory_bytes: 0, ..snapshot }, causes), is_wal)
}
