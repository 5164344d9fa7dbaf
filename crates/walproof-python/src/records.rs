//! `WalRecords`: records in order, a bounded number at a time.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use walproof_wal::{Compression, Error, Image, Lsn, Range, Reader, Record, Style, Watch};

use crate::source::{segments, RawSource};
use crate::watched::watched;

/// length, hole offset, hole length, compression, applied
type ImageRow = (u16, u16, u16, Option<&'static str>, bool);
/// (id, tablespace, database, relation, fork, block), data length, whether it is initialised, image
type BlockRow = ((u8, u32, u32, u32, u8, u32), u16, bool, Option<ImageRow>);
/// (LSN, previous LSN, end), resource manager and operation, total length, main data length, transaction,
/// top-level transaction, origin, blocks
type RecordRow = ((u64, u64, u64), String, u32, usize, u32, Option<u32>, Option<u16>, Vec<BlockRow>);

/// A reader of WAL; see `_native.pyi`.
#[pyclass(module = "walproof._native")]
pub struct WalRecords {
    reader: Reader,
    watch: Watch,
}

#[pymethods]
impl WalRecords {
    #[new]
    #[pyo3(signature = (paths, start, end, timeline, *, allow_gaps))]
    fn new(
        py: Python<'_>,
        paths: Vec<RawSource>,
        start: Option<u64>,
        end: Option<u64>,
        timeline: Option<u32>,
        allow_gaps: bool,
    ) -> PyResult<WalRecords> {
        let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
        let watch = Watch::default();
        let reader = watched(py, &watch, None, || {
            let reader = Reader::open(segments(paths, &watch)?, range)?;
            reader.announce(1);
            Ok(reader)
        })?;
        Ok(WalRecords { reader, watch })
    }

    /// Bytes of WAL that were read so far, and that there are.
    fn progress(&self) -> (u64, u64) {
        self.watch.progress()
    }

    /// Up to `count` more records.
    fn rows(&mut self, py: Python<'_>, count: usize) -> PyResult<Vec<RecordRow>> {
        self.collect(py, count, Vec::new(), |rows, record| rows.push(record_row(record)))
    }

    /// Up to `count` more records as text, in one of the styles `line`, `blocks` and `json`.
    fn text(&mut self, py: Python<'_>, count: usize, style: &str) -> PyResult<String> {
        let style = match style {
            "line" => Style::Line,
            "blocks" => Style::Blocks,
            "json" => Style::Json,
            other => return Err(PyValueError::new_err(format!("no style \"{other}\""))),
        };
        self.collect(py, count, String::new(), |text, record| {
            // A string takes everything that is written to it.
            let _ = record.write_to(text, style);
        })
    }
}

impl WalRecords {
    /// Folds up to `count` records into `into`. What was read before an error is given first, and the error
    /// the next time: the reader stays where it is.
    fn collect<T: Send>(
        &mut self,
        py: Python<'_>,
        count: usize,
        mut into: T,
        add: impl Fn(&mut T, &Record<'_>) + Send,
    ) -> PyResult<T> {
        let reader = &mut self.reader;
        watched(py, &self.watch, None, move || -> Result<T, Error> {
            for number in 0..count {
                match reader.next_record() {
                    Ok(Some(record)) => add(&mut into, &record),
                    Ok(None) => break,
                    Err(error) if number == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            Ok(into)
        })
    }
}

fn record_row(record: &Record<'_>) -> RecordRow {
    let image_row = |image: Image| {
        let method = image.compression.map(Compression::name);
        (image.length, image.hole_offset, image.hole_length, method, image.apply)
    };
    let blocks = record.blocks.iter().map(|block| {
        let at = block.relation;
        let place = (block.id, at.tablespace, at.database, at.relation, block.fork, block.block);
        (place, block.data_length, block.will_init, block.image.map(image_row))
    });
    (
        (record.lsn.0, record.header.prev.0, record.end.0),
        record.operation().to_string(),
        record.header.total_length,
        record.main_data.len(),
        record.header.xid,
        record.toplevel_xid,
        record.origin,
        blocks.collect(),
    )
}
