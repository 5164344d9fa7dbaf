//! Any text as the history of a timeline, beside segments of several timelines.

use walproof_wal::{SegmentName, Segments};

const SEGMENT_SIZE: u32 = 16 << 20;
/// Timelines and places of which there are segments.
const TIMELINES: u32 = 6;
const PLACES: u32 = 8;

/// The first byte is the timeline, the rest the text. What is read and written again reads the same; and every place of
/// the WAL is on exactly the timelines that were the history's there.
pub fn history(bytes: &[u8]) {
    let Some((timeline, text)) = bytes.split_first() else { return };
    let (timeline, text) = (u32::from(*timeline), String::from_utf8_lossy(text));
    let Ok(segments) = at_hand().with_history(timeline, &text) else { return };
    let texts: Vec<(u32, String)> = segments.histories().collect();
    assert_eq!(texts.len(), 1);
    let Some((_, written)) = texts.first() else { return };
    let again = at_hand().with_history(timeline, written);
    assert!(again.is_ok_and(|again| again.histories().collect::<Vec<_>>() == texts), "{written}");

    let ancestors: Vec<u32> =
        written.lines().filter_map(|line| line.split('\t').next()?.parse().ok()).collect();
    assert!(ancestors.is_sorted_by(|ancestor, next| ancestor < next), "{ancestors:?}");
    for segment in 0..PLACES {
        let wanted = SegmentName { timeline, log: 0, segment };
        let found = segments.find(wanted, 0, SEGMENT_SIZE);
        assert!(found.is_none_or(|name| name.timeline == timeline || ancestors.contains(&name.timeline)));
        if ancestors.iter().chain([&timeline]).all(|found| (1..=TIMELINES).contains(found)) {
            assert!(found.is_some(), "nothing at place {segment} of the history {written}");
        }
        if let Some(name) = found {
            assert_eq!(segments.find(wanted, name.timeline, SEGMENT_SIZE), found);
            assert_eq!(segments.find(wanted, name.timeline + 1, SEGMENT_SIZE), None);
            let after = segments.after(name, timeline, SEGMENT_SIZE);
            assert!(after.is_none_or(|after| after.segment > segment && after.timeline >= name.timeline));
        }
    }
}

fn at_hand() -> Segments {
    let names = (1..=TIMELINES)
        .flat_map(|timeline| (0..PLACES).map(move |segment| SegmentName { timeline, log: 0, segment }));
    Segments::from_memory(names.map(|name| (name, Vec::new())))
}
