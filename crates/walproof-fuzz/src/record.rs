//! Any content of a record whose header and checksum are right: parts that are wrong.

use walproof_wal::{Range, Reader, SegmentName, Segments, Style};

use crate::forged::one_record;

/// Version, resource manager, operation, then the content: its parts fit into it, and it can be printed.
pub fn record(input: &[u8]) {
    let name = SegmentName { timeline: 1, log: 0, segment: 1 };
    let segments = Segments::from_memory([(name, one_record(input))]);
    let opened = Reader::open(segments, Range::default());
    assert!(opened.is_ok(), "the page is in order: {opened:?}");
    let Ok(mut reader) = opened else { return };
    if let Ok(Some(record)) = reader.next_record() {
        let mut parts = record.main_data.len();
        for block in record.blocks {
            let (image, data) = (record.image(block), record.block_data(block));
            assert_eq!(image.len(), block.image.map_or(0, |image| usize::from(image.length)));
            assert_eq!(data.len(), usize::from(block.data_length));
            parts += image.len() + data.len();
        }
        assert!(parts + 24 <= record.bytes().len());
        assert!(!record.operation().to_string().is_empty());
        for style in [Style::Line, Style::Blocks, Style::Json] {
            let mut line = String::new();
            assert!(record.write_to(&mut line, style).is_ok() && line.ends_with('\n'));
        }
    }
}
