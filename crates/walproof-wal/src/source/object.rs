//! Files that lie in an object store, read in pieces.
//!
//! Nothing here knows a store: whoever opens one implements [`Objects`], fetches pieces ahead and retries. A piece is
//! in memory while it is read, an object never is as a whole.

use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::watch::Watch;

/// Bytes of a piece; the last one of an object has less.
pub const PIECE_SIZE: u64 = 4 << 20;

/// Bytes of an object, shared with whoever fetched them.
pub type Piece = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A store whose objects can be read.
pub trait Objects: fmt::Debug + Send + Sync {
    /// The piece of that number: [`PIECE_SIZE`] bytes from `number * PIECE_SIZE` on, less at the object's end.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn piece(&self, path: &str, number: u64) -> io::Result<Piece>;

    /// The first bytes of an object, for a caller that will not read on.
    ///
    /// # Errors
    /// As [`Objects::piece`].
    fn head(&self, path: &str) -> io::Result<Piece>;

    /// A small object as a whole, kept for whoever asks for it again; None where there is none.
    ///
    /// # Errors
    /// As [`Objects::piece`].
    fn small(&self, path: &str) -> io::Result<Option<Piece>>;
}

/// An object as a listing names it.
#[derive(Clone, Debug)]
pub struct Object {
    /// With the store's name: `s3://bucket/key`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// When it was written.
    pub modified: SystemTime,
    /// The store that it is in.
    pub store: Arc<dyn Objects>,
}

/// Where a file is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the file system.
    File(PathBuf),
    /// In an object store.
    Object(Object),
}

impl Place {
    /// Its name in messages, which ends in the file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Place::File(path) => path,
            Place::Object(object) => Path::new(&object.path),
        }
    }

    /// When it was last written, if that can be told.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        match self {
            Place::File(path) => path.metadata().and_then(|file| file.modified()).ok(),
            Place::Object(object) => Some(object.modified),
        }
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Place {
        Place::File(path)
    }
}

/// An object as a file that is read.
pub(super) struct ObjectFile {
    object: Object,
    position: u64,
    /// Where the bytes at hand begin.
    held: Option<(u64, Piece)>,
    /// Whether the first bytes seem to be enough.
    begins_with_head: bool,
    watch: Watch,
}

impl fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.object.path, self.position)
    }
}

impl ObjectFile {
    pub(super) fn new(object: Object, watch: &Watch) -> ObjectFile {
        ObjectFile { object, position: 0, held: None, begins_with_head: false, watch: watch.clone() }
    }

    /// The file for a caller that reads the beginning. It can be read to its end all the same.
    pub(super) fn head(object: Object, watch: &Watch) -> ObjectFile {
        ObjectFile { begins_with_head: true, ..ObjectFile::new(object, watch) }
    }

    pub(super) fn length(&self) -> u64 {
        self.object.size
    }

    /// Whether there are bytes at hand for the present position.
    fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|(start, piece)| {
            (*start..*start + (**piece).as_ref().len() as u64).contains(&self.position)
        })
    }

    fn fetch(&mut self) -> io::Result<()> {
        // Not ErrorKind::Interrupted: that is tried again.
        self.watch.check().map_err(io::Error::other)?;
        let Object { path, store, .. } = &self.object;
        self.held = None; // room for the next
        let held = if self.position == 0 && self.begins_with_head {
            (0, store.head(path)?)
        } else {
            let number = self.position / PIECE_SIZE;
            (number * PIECE_SIZE, store.piece(path, number)?)
        };
        self.held = Some(held);
        if self.is_held() {
            return Ok(());
        }
        let (at, size) = (self.position, self.object.size);
        let message = format!("the object ends before byte {at}, expected {size} bytes");
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
    }
}

impl BufRead for ObjectFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.position >= self.object.size {
            return Ok(&[]);
        }
        if !self.is_held() {
            self.fetch()?;
        }
        let Some((start, piece)) = &self.held else { return Ok(&[]) };
        let offset = usize::try_from(self.position - start).unwrap_or(usize::MAX);
        Ok((**piece).as_ref().get(offset..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.position += count as u64;
    }
}

impl Read for ObjectFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.object.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::Error;
    use crate::source::SegmentFile;

    /// Zeros, and how often they were asked for; the second time the pass is stopped.
    #[derive(Debug)]
    struct Stopping(AtomicU64, Watch);

    impl Objects for Stopping {
        fn piece(&self, _: &str, _: u64) -> io::Result<Piece> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 1 {
                self.1.stop();
            }
            Ok(Arc::new(vec![0_u8; PIECE_SIZE as usize]))
        }

        fn head(&self, path: &str) -> io::Result<Piece> {
            self.piece(path, 0)
        }

        fn small(&self, _: &str) -> io::Result<Option<Piece>> {
            Ok(None)
        }
    }

    #[test]
    fn a_stop_is_noticed_between_pieces() {
        let watch = Watch::default();
        let store = Arc::new(Stopping(AtomicU64::new(0), watch.clone()));
        let object = Object {
            path: "s3://bucket/000000010000000000000001".to_owned(),
            size: 4 * PIECE_SIZE,
            modified: SystemTime::UNIX_EPOCH,
            store: Arc::clone(&store) as Arc<dyn Objects>,
        };
        let mut file = SegmentFile::open(Place::Object(object), &watch).unwrap();
        let mut all = vec![0; 4 * PIECE_SIZE as usize];
        let (first, rest) = all.split_at_mut(1 << 20);
        assert_eq!(file.fill(first).unwrap(), 1 << 20);
        assert_eq!(watch.progress().0, 1 << 20);
        assert!(matches!(file.fill(rest), Err(Error::Interrupted)));
        assert_eq!(store.0.load(Ordering::Relaxed), 2, "nothing is fetched after a stop");
    }
}
