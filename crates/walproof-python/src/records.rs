//! `WalRecords`: records in order, a bounded number at a time.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use walproof_wal::{Compression, Error, Image, Lsn, Range, Reader, Record, Style, Watch};

use crate::filter::{Filter, RawFilter};
use crate::source::{segments, RawSource};
use crate::watched::{watched, Observe};

/// length, hole offset, hole length, compression, applied
type ImageRow = (u16, u16, u16, Option<&'static str>, bool);
/// (id, tablespace, database, relation, fork, block), data length, whether it is initialised, image
type BlockRow = ((u8, u32, u32, u32, u8, u32), u16, bool, Option<ImageRow>);
/// (LSN, previous LSN, end), resource manager and operation, total length, main data length, transaction,
/// top-level transaction, origin, blocks
type RecordRow = ((u64, u64, u64), String, u32, usize, u32, Option<u32>, Option<u16>, Vec<BlockRow>);

/// What was found is handed over this often, however few that is.
const HANDED_OVER_AFTER: Duration = Duration::from_millis(200);
/// Records between two looks at the clock.
const CLOCK_EVERY: u64 = 1024;

/// A reader of WAL; see `_native.pyi`.
#[pyclass(module = "walproof._native")]
pub struct WalRecords {
    reader: Reader,
    watch: Watch,
    /// None wants every record.
    filter: Option<Filter>,
    /// The records that were looked at.
    read: u64,
}

#[pymethods]
impl WalRecords {
    #[new]
    #[pyo3(signature = (paths, start, end, timeline, *, allow_gaps, filter=None))]
    #[allow(clippy::too_many_arguments)] // they are named, and Python's
    fn new(
        py: Python<'_>,
        paths: Vec<RawSource>,
        start: Option<u64>,
        end: Option<u64>,
        timeline: Option<u32>,
        allow_gaps: bool,
        filter: Option<RawFilter>,
    ) -> PyResult<WalRecords> {
        let range = Range { start: start.map(Lsn), end: end.map(Lsn), timeline, allow_gaps };
        let watch = Watch::default();
        let reader = watched(py, &watch, None, || {
            let reader = Reader::open(segments(paths, &watch)?, range)?;
            reader.announce(1);
            Ok(reader)
        })?;
        Ok(WalRecords { reader, watch, filter: filter.map(Filter::from), read: 0 })
    }

    /// How many records were looked at so far.
    fn records_read(&self) -> u64 {
        self.read
    }

    /// Up to `count` more records.
    fn rows(&mut self, py: Python<'_>, count: usize) -> PyResult<Vec<RecordRow>> {
        let (rows, _) =
            self.collect(py, count, None, Vec::new(), |rows, record| rows.push(record_row(record)))?;
        Ok(rows)
    }

    /// Up to `count` more records as text, in one of the styles `line`, `blocks` and `json`.
    #[pyo3(signature = (count, style, observe=None))]
    fn text(
        &mut self,
        py: Python<'_>,
        count: usize,
        style: &str,
        observe: Observe<'_>,
    ) -> PyResult<(String, usize)> {
        let style = match style {
            "line" => Style::Line,
            "blocks" => Style::Blocks,
            "json" => Style::Json,
            other => return Err(PyValueError::new_err(format!("no style \"{other}\""))),
        };
        self.collect(py, count, observe.as_ref(), String::new(), |text, record| {
            // A string takes everything that is written to it.
            let _ = record.write_to(text, style);
        })
    }
}

impl WalRecords {
    /// Folds up to `count` records that are wanted into `into`, and counts them. What was read before an error is
    /// given first, and the error the next time: the reader stays where it is.
    fn collect<T: Send>(
        &mut self,
        py: Python<'_>,
        count: usize,
        observe: Option<&Bound<'_, PyAny>>,
        mut into: T,
        add: impl Fn(&mut T, &Record<'_>) + Send,
    ) -> PyResult<(T, usize)> {
        let WalRecords { reader, watch, filter, read } = self;
        watched(py, watch, observe, move || -> Result<(T, usize), Error> {
            let began = Instant::now();
            let mut found = 0;
            while found < count {
                if found > 0 && *read % CLOCK_EVERY == 0 && began.elapsed() > HANDED_OVER_AFTER {
                    break;
                }
                match reader.next_record() {
                    Ok(Some(record)) => {
                        *read += 1;
                        if filter.as_ref().is_none_or(|filter| filter.wants(&record)) {
                            add(&mut into, &record);
                            found += 1;
                        }
                    }
                    Ok(None) => break,
                    Err(error) if found == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            Ok((into, found))
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
