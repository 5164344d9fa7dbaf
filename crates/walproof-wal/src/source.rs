//! Where segments come from: a `pg_wal` folder, segment files given one by one, or memory.
//!
//! A segment is opened once and read forwards, so that a compressed file can take a plain one's place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::lsn::SegmentName;

/// The segments at hand, by place in the WAL and by timeline. Files are listed once and opened when needed.
#[derive(Clone, Debug)]
pub struct Segments {
    origin: PathBuf,
    stored: BTreeMap<(u32, u32), BTreeMap<u32, Stored>>,
}

#[derive(Clone, Debug)]
enum Stored {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

impl Stored {
    fn is_partial(&self) -> bool {
        matches!(self, Stored::File(path) if path.extension().is_some())
    }
}

impl Segments {
    /// The segments in folders and files, in any mixture.
    ///
    /// # Errors
    /// As [`Segments::from_path`].
    pub fn from_paths<P: AsRef<Path>>(paths: &[P]) -> Result<Segments, Error> {
        let mut all = Segments { origin: PathBuf::new(), stored: BTreeMap::new() };
        for path in paths {
            let more = Segments::from_path(path.as_ref())?;
            if all.stored.is_empty() {
                all.origin = more.origin;
            }
            for (place, timelines) in more.stored {
                all.stored.entry(place).or_default().extend(timelines);
            }
        }
        Ok(all)
    }

    /// The segments in a folder, or the one segment that a file is.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder cannot be listed, [`Error::NoSegments`] when no name in it is a segment's.
    pub fn from_path(path: &Path) -> Result<Segments, Error> {
        if !path.is_dir() {
            return Segments::from_files([path]);
        }
        let failed = |source| Error::Io { action: "open directory", path: path.to_owned(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        let segments = Segments::from_names(path.to_owned(), paths);
        if segments.stored.is_empty() {
            return Err(Error::NoSegments { path: path.to_owned() });
        }
        Ok(segments)
    }

    /// Segment files, in any order; each name must be a segment's, with or without `.partial`.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that is not there, [`Error::NoSegments`] for one with another name.
    pub fn from_files<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<Segments, Error> {
        let mut paths = Vec::new();
        for file in files {
            let path = file.as_ref().to_owned();
            if let Err(source) = path.metadata() {
                return Err(Error::Io { action: "open file", path, source });
            }
            if segment_name(&path).is_none() {
                return Err(Error::NoSegments { path });
            }
            paths.push(path);
        }
        Ok(Segments::from_names(paths.first().cloned().unwrap_or_default(), paths))
    }

    /// Segments whose bytes are at hand already.
    #[must_use]
    pub fn from_memory(segments: impl IntoIterator<Item = (SegmentName, Vec<u8>)>) -> Segments {
        let named = segments.into_iter().map(|(name, bytes)| (name, Stored::Memory(bytes.into())));
        Segments::from_stored(PathBuf::new(), named)
    }

    fn from_names(origin: PathBuf, paths: Vec<PathBuf>) -> Segments {
        let named = paths.into_iter().filter_map(|path| Some((segment_name(&path)?, Stored::File(path))));
        Segments::from_stored(origin, named)
    }

    fn from_stored(origin: PathBuf, named: impl Iterator<Item = (SegmentName, Stored)>) -> Segments {
        let mut segments = Segments { origin, stored: BTreeMap::new() };
        for (name, stored) in named {
            let timelines = segments.stored.entry((name.log, name.segment)).or_default();
            // A segment that was archived whole is better than the partial one a promotion left behind.
            if !stored.is_partial() || !timelines.contains_key(&name.timeline) {
                timelines.insert(name.timeline, stored);
            }
        }
        segments
    }

    /// The folder they are in, or the first of the files given.
    #[must_use]
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Every segment, in order of place and then timeline.
    pub fn names(&self) -> impl Iterator<Item = SegmentName> + '_ {
        self.stored.iter().flat_map(|(&(log, segment), timelines)| {
            timelines.keys().map(move |&timeline| SegmentName { timeline, log, segment })
        })
    }

    /// The segment in `wanted`'s place on the highest timeline from `lowest` to `wanted.timeline`.
    #[must_use]
    pub fn find(&self, wanted: SegmentName, lowest: u32) -> Option<SegmentName> {
        if lowest > wanted.timeline {
            return None;
        }
        let timelines = self.stored.get(&(wanted.log, wanted.segment))?;
        let (&timeline, _) = timelines.range(lowest..=wanted.timeline).next_back()?;
        Some(SegmentName { timeline, ..wanted })
    }

    /// The first segment behind `name`'s place that is on a timeline from `name`'s to `highest`.
    #[must_use]
    pub fn after(&self, name: SegmentName, highest: u32) -> Option<SegmentName> {
        self.names()
            .filter(|other| (other.log, other.segment) > (name.log, name.segment))
            .find(|other| (name.timeline..=highest).contains(&other.timeline))
    }

    /// Opens a segment that [`Segments::names`] listed.
    ///
    /// # Errors
    /// [`Error::Io`] when the file has gone, or may not be read.
    pub fn open(&self, name: SegmentName) -> Result<SegmentFile, Error> {
        let stored =
            self.stored.get(&(name.log, name.segment)).and_then(|timelines| timelines.get(&name.timeline));
        let (input, path) = match stored {
            Some(Stored::Memory(bytes)) => {
                (Ok(Input::Memory(Cursor::new(bytes.clone()))), PathBuf::from(name.to_string()))
            }
            Some(Stored::File(path)) => (File::open(path).map(Input::File), path.clone()),
            None => (Err(io::ErrorKind::NotFound.into()), PathBuf::from(name.to_string())),
        };
        match input {
            Ok(input) => Ok(SegmentFile { input, path, position: 0 }),
            Err(source) => Err(Error::Io { action: "open file", path, source }),
        }
    }
}

fn segment_name(path: &Path) -> Option<SegmentName> {
    SegmentName::parse(path.file_name()?.to_str()?)
}

/// An open segment, read forwards.
#[derive(Debug)]
pub struct SegmentFile {
    input: Input,
    path: PathBuf,
    position: u32,
}

#[derive(Debug)]
enum Input {
    File(File),
    Memory(Cursor<Arc<[u8]>>),
}

impl SegmentFile {
    /// Offset of the next byte to be read.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Bytes in the file.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system says no.
    pub fn length(&self) -> Result<u64, Error> {
        match &self.input {
            Input::File(file) => {
                file.metadata().map(|metadata| metadata.len()).map_err(|source| self.failed(source))
            }
            Input::Memory(bytes) => Ok(bytes.get_ref().len() as u64),
        }
    }

    /// Moves forwards to `offset`; never backwards.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system says no.
    pub fn skip_to(&mut self, offset: u32) -> Result<(), Error> {
        if offset > self.position {
            let target = SeekFrom::Start(u64::from(offset));
            let moved = match &mut self.input {
                Input::File(file) => file.seek(target),
                Input::Memory(bytes) => bytes.seek(target),
            };
            moved.map_err(|source| self.failed(source))?;
            self.position = offset;
        }
        Ok(())
    }

    /// Fills `buffer`, less only where the file ends; the number of bytes read.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system says no.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = match &mut self.input {
                Input::File(file) => file.read(rest),
                Input::Memory(bytes) => bytes.read(rest),
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.position = self.position.saturating_add(u32::try_from(filled).unwrap_or(u32::MAX));
        Ok(filled)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { action: "read from file", path: self.path.clone(), source }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn name(timeline: u32, segment: u32) -> SegmentName {
        SegmentName { timeline, log: 0, segment }
    }

    fn segments(names: &[&str]) -> Segments {
        Segments::from_names(PathBuf::new(), names.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn the_highest_timeline_wins_and_never_goes_back() {
        let at_hand = segments(&[
            "wal/000000010000000000000004",
            "wal/000000010000000000000005.partial",
            "wal/000000020000000000000005",
            "wal/000000010000000000000006",
            "wal/00000002.history",
        ]);
        assert_eq!(at_hand.names().count(), 4);
        assert_eq!(at_hand.find(name(9, 4), 1), Some(name(1, 4)));
        assert_eq!(at_hand.find(name(9, 5), 1), Some(name(2, 5)));
        assert_eq!(at_hand.find(name(1, 5), 1), Some(name(1, 5)));
        // Once on timeline 2, timeline 1's next segment is another history.
        assert_eq!(at_hand.find(name(9, 6), 2), None);
        assert_eq!(at_hand.after(name(2, 5), 9), None);
        assert_eq!(at_hand.after(name(1, 5), 9), Some(name(1, 6)));
    }

    #[test]
    fn a_whole_segment_is_preferred_to_its_partial_one() {
        for order in [
            ["a/000000010000000000000005", "b/000000010000000000000005.partial"],
            ["b/000000010000000000000005.partial", "a/000000010000000000000005"],
        ] {
            let at_hand = segments(&order);
            let stored = at_hand.stored.values().next().unwrap().values().next().unwrap();
            assert!(!stored.is_partial(), "{stored:?}");
        }
    }

    #[test]
    fn a_folder_without_segments_is_an_error() {
        let folder = std::env::temp_dir().join(format!("walproof-source-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let empty = Segments::from_path(&folder).unwrap_err();
        assert_eq!(empty.to_string(), format!("could not find any WAL file in \"{}\"", folder.display()));
        std::fs::remove_dir(&folder).unwrap();
        let gone = Segments::from_path(&folder.join("000000010000000000000001")).unwrap_err().to_string();
        assert!(gone.starts_with("could not open file \""), "{gone}");
    }
}
