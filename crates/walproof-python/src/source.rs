//! Where segments are, as Python tells it: a path, or objects of a store with who reads them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use walproof_wal::{Error, Object, Objects, Piece, Place, Segments, Source, Watch};

/// A folder or file, or a `walproof.wal.places.place.Objects`.
#[derive(FromPyObject)]
pub enum RawSource {
    Path(PathBuf),
    Listing(RawListing),
}

#[derive(FromPyObject)]
pub struct RawListing {
    origin: String,
    /// Path, bytes, microseconds since 1970.
    objects: Vec<(String, u64, u64)>,
    reader: Py<PyAny>,
}

/// A file, or an object: path, bytes, reader.
#[derive(FromPyObject)]
pub enum RawPlace {
    File(PathBuf),
    Object(String, u64, Py<PyAny>),
}

impl From<RawPlace> for Place {
    fn from(raw: RawPlace) -> Place {
        match raw {
            RawPlace::File(path) => Place::File(path),
            RawPlace::Object(path, size, reader) => {
                let store = Arc::new(PythonObjects(reader));
                Place::Object(Object { path, size, modified: SystemTime::UNIX_EPOCH, store })
            }
        }
    }
}

impl From<RawSource> for Source {
    fn from(raw: RawSource) -> Source {
        match raw {
            RawSource::Path(path) => Source::Path(path),
            RawSource::Listing(RawListing { origin, objects, reader }) => {
                let store: Arc<dyn Objects> = Arc::new(PythonObjects(reader));
                let object = |(path, size, modified_us)| {
                    let modified = SystemTime::UNIX_EPOCH + Duration::from_micros(modified_us);
                    Object { path, size, modified, store: Arc::clone(&store) }
                };
                Source::Listing { origin, objects: objects.into_iter().map(object).collect() }
            }
        }
    }
}

/// The segments in all of them.
pub fn segments(sources: Vec<RawSource>, watch: &Watch) -> Result<Arc<Segments>, Error> {
    Segments::watched(sources.into_iter().map(Source::from), watch).map(Arc::new)
}

/// What a reader in Python fetches. It remembers what stops it, so that whoever called us raises that.
struct PythonObjects(Py<PyAny>);

impl fmt::Debug for PythonObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects read by Python")
    }
}

impl PythonObjects {
    fn fetched(
        &self,
        call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> io::Result<Piece> {
        Python::attach(|py| match call(self.0.bind(py)).and_then(|bytes| Ok(bytes.extract()?)) {
            Ok(bytes) => {
                let bytes: PyBackedBytes = bytes;
                Ok(Arc::new(bytes) as Piece)
            }
            Err(error) => Err(io::Error::other(error.value(py).to_string())),
        })
    }
}

impl Objects for PythonObjects {
    fn piece(&self, path: &str, number: u64) -> io::Result<Piece> {
        self.fetched(|reader| reader.call_method1("piece", (path, number)))
    }

    fn head(&self, path: &str) -> io::Result<Piece> {
        self.fetched(|reader| reader.call_method1("head", (path,)))
    }

    fn small(&self, path: &str) -> io::Result<Option<Piece>> {
        // No object of use is empty, so that emptiness says that there is none.
        let found = self.fetched(|reader| reader.call_method1("small", (path,)))?;
        Ok((!(*found).as_ref().is_empty()).then_some(found))
    }
}
