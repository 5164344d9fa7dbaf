//! The simulated disk: making its state file, arming it, and planning what a cut leaves behind.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use walproof_disk::state::{offsets, Config, Geometry, Root, BLOCK};
use walproof_disk::{
    image, unflushed, Device, Entry, Error, Event, FileId, FileImage, Node, Origin, Path, Snapshot, Source,
    Survival, Unit, Wish, PROFILES,
};
use walproof_wal::data_page::{is_whole, PAGE_BYTES};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(device_profiles, module)?)?;
    module.add_function(wrap_pyfunction!(disk_events, module)?)?;
    module.add_function(wrap_pyfunction!(disk_create, module)?)?;
    module.add_function(wrap_pyfunction!(disk_arm, module)?)?;
    module.add_function(wrap_pyfunction!(disk_cut, module)?)?;
    module.add_function(wrap_pyfunction!(disk_status, module)?)?;
    module.add_function(wrap_pyfunction!(disk_unflushed, module)?)?;
    module.add_function(wrap_pyfunction!(disk_image, module)?)?;
    module.add_function(wrap_pyfunction!(damaged_pages, module)?)
}

fn disk_error(py: Python<'_>, error: &Error) -> PyErr {
    crate::exception(py, "DiskError", &error.to_string(), None, None)
}

#[pyfunction]
fn device_profiles() -> Vec<(&'static str, u64, u64, &'static str)> {
    let row = |p: walproof_disk::Profile| (p.name, p.device.flush_ns, p.device.write_bytes_per_s, p.about);
    PROFILES.into_iter().map(row).collect()
}

#[pyfunction]
fn disk_events() -> Vec<&'static str> {
    Event::ALL.into_iter().map(Event::name).collect()
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // keyword arguments on the Python side
#[pyo3(signature = (path, roots, *, tracking, real_flush, strict, writeback_ns, flush_ns, write_bytes_per_s, seed, undo_bytes, swallowed))]
fn disk_create(
    path: PathBuf,
    roots: Vec<(Vec<u8>, Vec<u8>)>,
    tracking: bool,
    real_flush: bool,
    strict: bool,
    writeback_ns: u64,
    flush_ns: u64,
    write_bytes_per_s: u64,
    seed: u64,
    undo_bytes: u64,
    swallowed: Vec<u8>,
    py: Python<'_>,
) -> PyResult<()> {
    let geometry = Geometry::for_undo(undo_bytes);
    let config = Config {
        roots: roots.into_iter().map(|(path, graveyard)| Root { path, graveyard }).collect(),
        tracking,
        real_flush,
        strict,
        writeback_ns,
        device: Device { flush_ns, write_bytes_per_s },
        seed,
        swallowed,
        geometry,
    };
    let make = || -> Result<(), Error> {
        let header = config.encode().ok_or(Error::Config)?;
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.set_len(geometry.total_bytes())?;
        file.write_all_at(&header, 0)?;
        Ok(())
    };
    py.detach(make).map_err(|error| disk_error(py, &error))
}

fn write_words(path: PathBuf, words: &[(u64, u64)]) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).open(path)?;
    for (offset, word) in words {
        file.write_all_at(&word.to_le_bytes(), *offset)?;
    }
    Ok(())
}

#[pyfunction]
fn disk_arm(path: PathBuf, event: usize, count: u64, fails: bool, py: Python<'_>) -> PyResult<()> {
    if event >= Event::ALL.len() {
        return Err(PyValueError::new_err(format!("no event has number {event}")));
    }
    let words = [
        (offsets::TRIGGER_EVENT, 0),
        (offsets::TRIGGER_LEFT, count),
        (offsets::TRIGGER_ACTION, u64::from(fails)),
        (offsets::TRIGGER_EVENT, event as u64 + 1),
    ];
    py.detach(|| write_words(path, &words)).map_err(|error| disk_error(py, &error))
}

#[pyfunction]
fn disk_cut(path: PathBuf, monotonic_ns: u64, py: Python<'_>) -> PyResult<()> {
    let words = [(offsets::CUT_MONOTONIC_NS, monotonic_ns), (offsets::CUT, 1)];
    py.detach(|| write_words(path, &words)).map_err(|error| disk_error(py, &error))
}

#[pyfunction]
fn disk_status<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let read = || {
        let file = File::open(path)?;
        Snapshot::read_header(|at, buffer| file.read_exact_at(buffer, at))
    };
    let header = py.detach(read).map_err(|error| disk_error(py, &error))?;
    let figures = PyDict::new(py);
    let load = |field: &std::sync::atomic::AtomicU64| field.load(std::sync::atomic::Ordering::Relaxed);
    figures.set_item("attached", load(&header.attached))?;
    figures.set_item("busy", load(&header.busy))?;
    figures.set_item("is_cut", load(&header.cut) != 0)?;
    let armed = load(&header.trigger_event) != 0;
    // Each event takes one away, and events go on after the one that triggered.
    let left = load(&header.trigger_left);
    figures.set_item("has_triggered", armed && (left == 0 || left > u64::MAX / 2))?;
    figures.set_item("cut_monotonic_ns", load(&header.cut_monotonic_ns))?;
    figures.set_item("sequence", load(&header.sequence))?;
    figures.set_item("undo_bytes_max", load(&header.records_used_max) * BLOCK)?;
    figures.set_item("void", header.why_void().into_iter().map(|why| why.reason()).collect::<Vec<_>>())?;
    let counts = PyDict::new(py);
    for (event, count) in Event::ALL.into_iter().zip(&header.counts) {
        counts.set_item(event.name(), load(count))?;
    }
    figures.set_item("counts", counts)?;
    Ok(figures)
}

fn snapshot(file: &File) -> Result<Snapshot, Error> {
    Snapshot::read(|at, buffer| file.read_exact_at(buffer, at))
}

/// (device, inode, number of the oldest change, changes).
#[pyfunction]
fn disk_unflushed(path: PathBuf, sequence: u64, py: Python<'_>) -> PyResult<Vec<(u64, u64, u64, u64)>> {
    let read = || Ok(unflushed(&snapshot(&File::open(path)?)?, sequence));
    let files = py.detach(read).map_err(|error: Error| disk_error(py, &error))?;
    Ok(files.into_iter().map(|f| (f.id.device, f.id.inode, f.oldest_sequence, f.changes)).collect())
}

/// Numbers of the pages in a file of a relation that are not whole. `first` is the number of its first page. A part
/// of a page at the end is left out, as PostgreSQL leaves it out.
#[pyfunction]
fn damaged_pages(path: PathBuf, first: u32, py: Python<'_>) -> PyResult<Vec<u32>> {
    let read = || -> Result<Vec<u32>, Error> {
        let bytes = std::fs::read(path)?;
        let pages = bytes.chunks_exact(PAGE_BYTES).zip(first..);
        let damaged = pages.filter_map(|(page, number)| {
            let page: &[u8; PAGE_BYTES] = page.try_into().ok()?;
            (!is_whole(page, number)).then_some(number)
        });
        Ok(damaged.collect())
    };
    py.detach(read).map_err(|error| disk_error(py, &error))
}

/// Root, path, kind (`d`, `l`, `f`), device, inode, size, target.
type LiveRow = (u8, Vec<u8>, char, u64, u64, u64, Vec<u8>);

#[pyfunction]
#[allow(clippy::too_many_arguments)] // keyword arguments on the Python side
#[pyo3(signature = (path, live, kept, *, seed, survival, keep, unit_bytes))]
fn disk_image<'py>(
    py: Python<'py>,
    path: PathBuf,
    live: Vec<LiveRow>,
    kept: Vec<(u64, u64, u64)>,
    seed: u64,
    survival: &str,
    keep: f64,
    unit_bytes: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let survival = match survival {
        "nothing" => Survival::Nothing,
        "everything" => Survival::Everything,
        "by age" => Survival::ByAge,
        "random" => Survival::Random(keep),
        other => return Err(PyValueError::new_err(format!("no such survival: {other}"))),
    };
    let unit = Unit::of_bytes(unit_bytes)
        .ok_or_else(|| PyValueError::new_err(format!("no such unit: {unit_bytes} bytes")))?;
    if let Some((_, _, kind, ..)) = live.iter().find(|row| !matches!(row.2, 'd' | 'l' | 'f')) {
        return Err(PyValueError::new_err(format!("no such kind of file: {kind}")));
    }
    let plan = py.detach(|| {
        let file = File::open(path)?;
        let snapshot = snapshot(&file)?;
        let mut sizes: BTreeMap<FileId, u64> =
            kept.into_iter().map(|(device, inode, size)| (FileId { device, inode }, size)).collect();
        let mut tree = walproof_disk::Tree::new();
        for (root, path, kind, device, inode, size, target) in live {
            let id = FileId { device, inode };
            let node = match kind {
                'd' => Node::Folder,
                'l' => Node::Symlink(target),
                _ => {
                    sizes.insert(id, size);
                    Node::File(id)
                }
            };
            tree.insert((root, path), node);
        }
        let image = image(&snapshot, tree, &sizes, &Wish { seed, survival, unit })?;
        let blocks_at = snapshot.header.geometry().map_or(0, |geometry| geometry.blocks_at());
        let mut entries = Vec::with_capacity(image.len());
        for entry in image {
            entries.push(match entry {
                Entry::File(path, origin, Some(content)) => {
                    let pieces = pieces(&file, blocks_at, &content)?;
                    Planned::File(path, origin, Some((content.size, pieces)))
                }
                Entry::File(path, origin, None) => Planned::File(path, origin, None),
                Entry::Folder(path) => Planned::Folder(path),
                Entry::Symlink(path, target) => Planned::Symlink(path, target),
            });
        }
        Ok(entries)
    });
    let entries = plan.map_err(|error: Error| disk_error(py, &error))?;
    let result = PyDict::new(py);
    let (mut folders, mut symlinks, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let (path, origin, content) = match entry {
            Planned::Folder(path) => {
                folders.push((path.0, PyBytes::new(py, &path.1)));
                continue;
            }
            Planned::Symlink(path, target) => {
                symlinks.push((path.0, PyBytes::new(py, &path.1), PyBytes::new(py, &target)));
                continue;
            }
            Planned::File(path, origin, content) => (path, origin, content),
        };
        let (root, is_kept, name) = match origin {
            Origin::Live((root, path)) => (root, false, path),
            Origin::Graveyard(root, name) => (root, true, name.into_bytes()),
        };
        let content = content.map(|(size, pieces)| {
            let pieces: Vec<_> = pieces.into_iter().map(|piece| piece.into_python(py)).collect();
            (size, pieces)
        });
        let (path_root, path) = path;
        files.push((path_root, PyBytes::new(py, &path), root, is_kept, PyBytes::new(py, &name), content));
    }
    result.set_item("folders", folders)?;
    result.set_item("symlinks", symlinks)?;
    result.set_item("files", files)?;
    Ok(result)
}

enum Planned {
    Folder(Path),
    Symlink(Path, Vec<u8>),
    File(Path, Origin, Option<(u64, Vec<Piece>)>),
}

/// Offset, and either bytes or name, offset and length in the graveyard.
type PyPiece<'py> = (u64, Option<Bound<'py, PyBytes>>, Option<(String, u64, u64)>);

/// Bytes at an offset, or a part of a file of the graveyard.
enum Piece {
    Bytes(u64, Vec<u8>),
    Side { at: u64, length: u64, name: String, from: u64 },
}

impl Piece {
    fn into_python(self, py: Python<'_>) -> PyPiece<'_> {
        match self {
            Self::Bytes(at, bytes) => (at, Some(PyBytes::new(py, &bytes)), None),
            Self::Side { at, length, name, from } => (at, None, Some((name, from, length))),
        }
    }
}

/// The patches with their bytes, neighbours joined.
fn pieces(file: &File, blocks_at: u64, content: &FileImage) -> Result<Vec<Piece>, Error> {
    let mut pieces: Vec<Piece> = Vec::new();
    for patch in &content.patches {
        let mut bytes = vec![0; usize::try_from(patch.length).map_err(|_| Error::NotAState)?];
        match patch.source {
            Source::Zeros => {}
            Source::Saved { record, valid } => {
                let within = patch.at % BLOCK;
                let there = usize::try_from(valid.saturating_sub(within)).unwrap_or(0).min(bytes.len());
                if let Some(place) = bytes.get_mut(..there) {
                    file.read_exact_at(place, blocks_at + record * BLOCK + within)?;
                }
            }
            Source::Side { sequence, start, valid } => {
                let (from, name) = (patch.at - start, format!("s{sequence}"));
                let length = patch.length.min(valid.saturating_sub(from));
                pieces.push(Piece::Side { at: patch.at, length, name, from });
                continue;
            }
        }
        match pieces.last_mut() {
            Some(Piece::Bytes(at, before)) if *at + before.len() as u64 == patch.at => {
                before.append(&mut bytes)
            }
            _ => pieces.push(Piece::Bytes(patch.at, bytes)),
        }
    }
    Ok(pieces)
}
