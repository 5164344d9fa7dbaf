//! `wal_verify` and what joins its results: facts of files as dicts of plain values, which JSON can hold.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::ThreadPoolBuilder;
use walproof_wal::verify::{
    join, probe, read_text, verify_files, Begun, Fault, FileFacts, Head, Joined, Request, Rest, Stretch,
};
use walproof_wal::{Lsn, PgVersion, SegmentName, Watch};

use crate::source::RawPlace;
use crate::watched::{watched, Observe};

/// File, name of the segment, partial, ending of a compressed file, whether SHA-1 is wanted.
type File = (RawPlace, String, bool, Option<String>, bool);
/// Location, length of the record, bytes so far, header in hexadecimal digits, checksum of the others.
type BegunParts = (u64, u32, u32, String, u32);
/// Bytes that the page expects, bytes here, the first of them in hexadecimal digits, checksum of the others.
type RestParts = (u32, u32, String, u32);

/// Facts of each file, in order; see `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (files, segment_size, threads, observe=None))]
pub fn wal_verify<'py>(
    py: Python<'py>,
    files: Vec<File>,
    segment_size: u32,
    threads: usize,
    observe: Observe<'py>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let requests = files
        .into_iter()
        .map(|(place, name, is_partial, ending, wants_sha1)| {
            let name = SegmentName::parse(&name)
                .ok_or_else(|| PyValueError::new_err(format!("no name of a segment: {name}")))?;
            Ok(Request { place: place.into(), name, is_partial, ending, wants_sha1 })
        })
        .collect::<PyResult<Vec<Request>>>()?;
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let watch = Watch::default();
    let facts =
        watched(py, &watch, observe.as_ref(), || verify_files(&requests, segment_size, &pool, &watch))?;
    facts.iter().map(|facts| facts_dict(py, facts)).collect()
}

/// The parts of a record before and after an edge: what there is of both together, or what is wrong with it.
#[pyfunction]
pub fn wal_join(
    begun: BegunParts,
    rest: RestParts,
    previous: Option<u64>,
    version: u32,
) -> PyResult<(Option<BegunParts>, Option<String>)> {
    let version = PgVersion::ALL
        .into_iter()
        .find(|known| known.major() == version)
        .ok_or_else(|| PyValueError::new_err(format!("no version: {version}")))?;
    let (lsn, total_length, length, header, crc) = begun;
    let begun = Begun { lsn: Lsn(lsn), total_length, length, header: bytes(&header)?, crc };
    let (remaining, length, first, crc) = rest;
    let rest = Rest { remaining, length, first: bytes(&first)?, crc };
    Ok(match join(&begun, &rest, previous.map(Lsn), version) {
        Ok(Joined::Whole(_)) => (None, None),
        Ok(Joined::Begun(begun)) => (Some(begun_parts(&begun)), None),
        Err(what) => (None, Some(what.to_string())),
    })
}

/// Version, system identifier and segment size by the first page of a file.
#[pyfunction]
pub fn wal_probe(py: Python<'_>, place: RawPlace) -> PyResult<Option<(u32, u64, u32)>> {
    let watch = Watch::default();
    let found = watched(py, &watch, None, || Ok(probe(place.into(), &watch)))?;
    Ok(found.map(|(version, system, size)| (version.major(), system, size)))
}

/// A small file, unpacked.
#[pyfunction]
pub fn wal_text(py: Python<'_>, place: RawPlace) -> PyResult<String> {
    let watch = Watch::default();
    watched(py, &watch, None, || read_text(place.into(), &watch))
}

fn facts_dict<'py>(py: Python<'py>, facts: &FileFacts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", facts.bytes)?;
    dict.set_item("sha1", facts.sha1.map(|sha1| digits(&sha1)))?;
    dict.set_item("version", facts.version.map(PgVersion::major))?;
    dict.set_item("system_identifier", facts.system_identifier)?;
    dict.set_item("address", facts.address.map(|lsn| lsn.0))?;
    dict.set_item("timelines", facts.timelines)?;
    let (head, rest) = match &facts.head {
        Head::Broken => ("broken", None),
        Head::Record => ("record", None),
        Head::Overwrite => ("overwrite", None),
        Head::Rest(rest) => ("rest", Some((rest.remaining, rest.length, digits(&rest.first), rest.crc))),
    };
    dict.set_item("head", head)?;
    dict.set_item("rest", rest)?;
    dict.set_item("tail", facts.tail.as_ref().map(begun_parts))?;
    let stretches = facts.stretches.iter().map(|stretch| stretch_dict(py, stretch));
    dict.set_item("stretches", stretches.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("faults", facts.faults.iter().map(fault_parts).collect::<Vec<_>>())?;
    dict.set_item("end", facts.end.as_ref().map(fault_parts))?;
    dict.set_item("is_clean_end", facts.is_clean_end)?;
    Ok(dict)
}

fn stretch_dict<'py>(py: Python<'py>, stretch: &Stretch) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("start", stretch.start.0)?;
    dict.set_item("end", stretch.end.0)?;
    dict.set_item("first", stretch.first.map(|(lsn, previous)| (lsn.0, previous.0)))?;
    dict.set_item("last", stretch.last.map(|lsn| lsn.0))?;
    dict.set_item("records", stretch.records)?;
    dict.set_item("times", stretch.times)?;
    let switches = stretch.switches.iter().map(|&(lsn, to, from)| (lsn.0, to, from));
    dict.set_item("switches", switches.collect::<Vec<_>>())?;
    Ok(dict)
}

/// Cause, location, offset, where records go on, message.
type FaultParts = (&'static str, u64, u64, Option<u64>, String);

fn fault_parts(fault: &Fault) -> FaultParts {
    let resumes = fault.resumes.map(|lsn| lsn.0);
    (fault.cause.name(), fault.lsn.0, fault.offset, resumes, fault.message.clone())
}

fn begun_parts(begun: &Begun) -> BegunParts {
    (begun.lsn.0, begun.total_length, begun.length, digits(&begun.header), begun.crc)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> PyResult<Vec<u8>> {
    let wrong = || PyValueError::new_err("no hexadecimal digits");
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(wrong());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or_else(wrong))
        .collect()
}
