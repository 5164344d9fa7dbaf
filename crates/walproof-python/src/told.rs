//! `WalRebuilder`: WAL made again from what a server tells of its records.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use walproof_wal::{Compression, Image, Lsn, PgVersion, Rebuilder, RelFileLocator, ToldBlock, ToldRecord};

use crate::exception;

/// Length, hole offset, hole length, compression, applied.
type RawImage = (u16, u16, u16, Option<String>, bool);
/// Id; tablespace, database, relation and fork; block; image; bytes of its data.
type RawBlock = (u8, (u32, u32, u32, u8), u32, Option<RawImage>, Option<u16>);
/// Location, the one before; transaction; resource manager, operation; length, length of main data; blocks; what is
/// known about the main data.
type RawRecord = ((u64, u64), u32, (String, String), (u32, u32), Vec<RawBlock>, Vec<u8>);

/// Makes WAL of records that are told in order.
#[pyclass(module = "walproof._native")]
pub struct WalRebuilder {
    rebuilder: Rebuilder,
}

#[pymethods]
impl WalRebuilder {
    #[new]
    fn new(
        py: Python<'_>,
        version: u32,
        system_identifier: u64,
        timeline: u32,
        segment_size: u32,
        start: u64,
    ) -> PyResult<WalRebuilder> {
        let found = PgVersion::ALL.into_iter().find(|known| known.major() == version);
        let version = found.ok_or_else(|| refused(py, &format!("WAL of version {version} is not known")))?;
        let rebuilder = Rebuilder::new(version, system_identifier, timeline, segment_size, Lsn(start));
        Ok(WalRebuilder { rebuilder })
    }

    /// Takes records; the bytes of WAL that they are.
    fn push<'py>(&mut self, py: Python<'py>, records: Vec<RawRecord>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        for ((lsn, prev), xid, (rmgr, operation), (total_length, main_length), blocks, main_data) in &records
        {
            let blocks = blocks.iter().map(|raw| block(py, raw)).collect::<PyResult<Vec<_>>>()?;
            let told = ToldRecord {
                lsn: Lsn(*lsn),
                prev: Lsn(*prev),
                xid: *xid,
                rmgr,
                operation,
                total_length: *total_length,
                main_length: *main_length,
                blocks: &blocks,
                main_data,
            };
            self.rebuilder.push(&told, &mut out).map_err(|untold| refused(py, &untold.to_string()))?;
        }
        Ok(PyBytes::new(py, &out))
    }
}

fn refused(py: Python<'_>, why: &str) -> PyErr {
    exception(py, "WalError", "the server's records do not make WAL", Some(why.to_owned()), None)
}

fn block(py: Python<'_>, raw: &RawBlock) -> PyResult<ToldBlock> {
    let (id, (tablespace, database, relation, fork), block, image, data_length) = raw;
    let image = match image {
        None => None,
        Some((length, hole_offset, hole_length, method, apply)) => {
            let compression = match method.as_deref() {
                None => None,
                Some(name) => Some(
                    Compression::ALL
                        .into_iter()
                        .find(|operation| operation.name() == name)
                        .ok_or_else(|| refused(py, &format!("unknown compression {name}")))?,
                ),
            };
            Some(Image {
                length: *length,
                hole_offset: *hole_offset,
                hole_length: *hole_length,
                compression,
                apply: *apply,
            })
        }
    };
    let relation = RelFileLocator { tablespace: *tablespace, database: *database, relation: *relation };
    Ok(ToldBlock { id: *id, relation, fork: *fork, block: *block, image, data_length: *data_length })
}
