//! Where segments come from: folders (a server's `pg_wal`, any archive), files given one by one, listings of object
//! stores, or memory.
//!
//! A segment is opened once and read forwards, so that a compressed file can take a plain one's place.

pub(crate) mod archive;
mod cipher;
mod history;
mod name;
mod object;
mod regular;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::Error;
use crate::lsn::{Lsn, SegmentName};
use crate::watch::Watch;

use archive::{Format, Opened};
pub use cipher::Locked;
use history::Histories;
use name::{file_kind, FileKind, Quality};
use object::ObjectFile;
pub use object::{Object, Objects, Piece, Place, PIECE_SIZE};

/// How deep folders are looked through: pgBackRest keeps segments at `archive/STANZA/15-1/0000000100000000/`.
const MOST_FOLDERS: usize = 6;
/// A history has a line for each promotion in a cluster's life.
const LONGEST_HISTORY: u64 = 1 << 20;

/// The segments at hand, by place in the WAL and by timeline. Files are listed once and opened when needed.
///
/// Where there are several files for a segment, a plain one is read before a compressed one, and a partial one
/// (left by a promotion, or by pg_receivewal) only for want of a whole one.
#[derive(Clone, Debug)]
pub struct Segments {
    origin: PathBuf,
    /// By log, segment and timeline: flat, since a map for each segment would take a kilobyte.
    stored: BTreeMap<(u32, u32, u32), Stored>,
    histories: Histories,
    /// Timelines that have a segment or a history.
    timelines: BTreeSet<u32>,
    /// Further files of segments in `stored`, which are not read.
    duplicates: Vec<(SegmentName, Stored)>,
    watch: Watch,
}

#[derive(Clone, Debug)]
enum Stored {
    File(Place, Quality),
    Memory(Arc<[u8]>),
}

/// Where segments are looked for.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder, with the folders in it, or a file.
    Path(PathBuf),
    /// What a store listed.
    Listing {
        /// What was listed: `s3://bucket/prefix`.
        origin: String,
        /// Its objects.
        objects: Vec<Object>,
    },
}

impl Source {
    fn origin(&self) -> &Path {
        match self {
            Source::Path(path) => path,
            Source::Listing { origin, .. } => Path::new(origin),
        }
    }
}

impl Stored {
    fn open(&self, name: SegmentName, watch: &Watch) -> Result<SegmentFile, Error> {
        match self {
            Stored::File(place, _) => SegmentFile::open(place.clone(), watch),
            Stored::Memory(bytes) => SegmentFile::of_memory(name, bytes, watch),
        }
    }

    fn quality(&self) -> Quality {
        match self {
            Stored::File(_, quality) => *quality,
            Stored::Memory(_) => Quality::Whole,
        }
    }
}

impl Segments {
    /// The segments in folders (and the folders in them) and files, in any mixture, plain or compressed with
    /// gzip, lz4, zstd, xz, lzma or bzip2. Timeline histories are read too.
    ///
    /// # Errors
    /// [`Error::Io`] for what cannot be listed or opened; [`Error::NotASegment`] for a file given by name that
    /// is none; [`Error::NoSegments`] when there is none at all; [`Error::History`] for a damaged history.
    pub fn from_paths<P: AsRef<Path>>(paths: &[P]) -> Result<Segments, Error> {
        let sources = paths.iter().map(|path| Source::Path(path.as_ref().to_owned()));
        Segments::watched(sources, &Watch::default())
    }

    /// The segments in folders, files and listings, as [`Segments::from_paths`]; what reads them counts and stops as
    /// `watch` says.
    ///
    /// # Errors
    /// As [`Segments::from_paths`], and [`Error::Interrupted`].
    pub fn watched(sources: impl IntoIterator<Item = Source>, watch: &Watch) -> Result<Segments, Error> {
        let mut sources = sources.into_iter().peekable();
        let origin = sources.peek().map_or_else(PathBuf::new, |source| source.origin().to_owned());
        let mut segments = Segments { watch: watch.clone(), ..Segments::empty(origin) };
        for source in sources {
            match source {
                Source::Path(path) => segments.add_path(path)?,
                Source::Listing { objects, .. } => {
                    for object in objects {
                        watch.check()?;
                        segments.add_file(Place::Object(object))?;
                    }
                }
            }
        }
        if segments.stored.is_empty() {
            return Err(Error::NoSegments { path: segments.origin });
        }
        Ok(segments)
    }

    fn add_path(&mut self, path: PathBuf) -> Result<(), Error> {
        match path.metadata() {
            Err(source) => Err(Error::Io { action: "open file", path, source }),
            Ok(file) if file.is_dir() => self.add_folder(&path, MOST_FOLDERS),
            Ok(_) if self.add_file(Place::File(path.clone()))? => Ok(()),
            Ok(_) => Err(Error::NotASegment { path }),
        }
    }

    fn empty(origin: PathBuf) -> Segments {
        Segments {
            origin,
            stored: BTreeMap::new(),
            histories: Histories::default(),
            timelines: BTreeSet::new(),
            duplicates: Vec::new(),
            watch: Watch::default(),
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Bytes of WAL between two locations for which there are segments.
    pub(crate) fn bytes_between(&self, from: Lsn, until: Lsn, segment_size: u32) -> u64 {
        let mut places: Vec<_> = self.stored.keys().map(|&(log, segment, _)| (log, segment)).collect();
        places.dedup();
        let places = places.into_iter().filter_map(|(log, segment)| {
            let start = SegmentName { timeline: 1, log, segment }.start(segment_size)?;
            let end = start.advance(u64::from(segment_size)).min(until);
            Some(end.0.saturating_sub(start.max(from).0))
        });
        places.sum()
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "open directory", path: folder.to_owned(), source };
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            self.watch.check()?;
            let entry = entry.map_err(failed)?;
            // Links to folders are not followed: they may lead back.
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(entry.path());
            } else {
                self.add_file(Place::File(entry.path()))?;
            }
        }
        if depth > 0 {
            folders.iter().try_for_each(|folder| self.add_folder(folder, depth - 1))?;
        }
        Ok(())
    }

    /// Whether the file's name is one that is of use.
    fn add_file(&mut self, place: Place) -> Result<bool, Error> {
        match file_kind(place.path()) {
            Some(FileKind::Segment(name, quality)) => self.add(name, Stored::File(place, quality)),
            Some(FileKind::History(timeline)) => self.add_history(place, timeline)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    fn add(&mut self, name: SegmentName, stored: Stored) {
        self.timelines.insert(name.timeline);
        let key = (name.log, name.segment, name.timeline);
        let worse = match self.stored.get(&key) {
            Some(known) if known.quality() <= stored.quality() => Some(stored),
            _ => self.stored.insert(key, stored),
        };
        self.duplicates.extend(worse.map(|stored| (name, stored)));
    }

    fn add_history(&mut self, place: Place, timeline: u32) -> Result<(), Error> {
        let mut text = Vec::new();
        let path = place.path().to_owned();
        let mut file = SegmentFile::open(place, &self.watch)?;
        let read = match &mut file.input {
            Input::File(input) => input.take(LONGEST_HISTORY).read_to_end(&mut text),
            Input::Object(input) => input.take(LONGEST_HISTORY).read_to_end(&mut text),
            Input::Memory(input) => input.take(LONGEST_HISTORY).read_to_end(&mut text),
            Input::Compressed(_, input) => input.take(LONGEST_HISTORY).read_to_end(&mut text),
        };
        read.map_err(|source| file.failed(source))?;
        self.add_history_text(&path, timeline, &String::from_utf8_lossy(&text))
    }

    fn add_history_text(&mut self, path: &Path, timeline: u32, text: &str) -> Result<(), Error> {
        self.timelines.insert(timeline);
        self.histories.add(timeline, text).map_err(|line| Error::History {
            path: path.to_owned(),
            line,
            text: nth_line(text, line),
        })
    }

    /// Segments whose bytes are at hand already, plain or compressed.
    #[must_use]
    pub fn from_memory(segments: impl IntoIterator<Item = (SegmentName, Vec<u8>)>) -> Segments {
        let mut all = Segments::empty(PathBuf::new());
        for (name, bytes) in segments {
            all.add(name, Stored::Memory(bytes.into()));
        }
        all
    }

    /// The same segments with the history of one timeline, as the text of its file.
    ///
    /// # Errors
    /// [`Error::History`] for a damaged one.
    pub fn with_history(mut self, timeline: u32, text: &str) -> Result<Segments, Error> {
        self.add_history_text(Path::new(&format!("{timeline:08X}.history")), timeline, text)?;
        Ok(self)
    }

    /// The first of the folders and files given.
    #[must_use]
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Every segment, in order of place and then timeline.
    pub fn names(&self) -> impl Iterator<Item = SegmentName> + '_ {
        self.stored.keys().map(|&(log, segment, timeline)| SegmentName { timeline, log, segment })
    }

    /// Where each whole segment's file ends in the WAL, and when the file was last written: of a server's own `pg_wal`
    /// and of most archives, when the segment was full. In order of place; of several timelines the newest.
    #[must_use]
    pub fn written(&self, segment_size: u32) -> Vec<(Lsn, SystemTime)> {
        let whole = |quality| matches!(quality, Quality::Whole | Quality::WholeCompressed);
        let mut all = self.stored.iter().peekable();
        let newest = std::iter::from_fn(move || loop {
            let (&key, stored) = all.next()?;
            let is_last = all.peek().is_none_or(|&(next, _)| (next.0, next.1) != (key.0, key.1));
            if is_last {
                return Some((key, stored));
            }
        });
        newest
            .filter_map(|((log, segment, timeline), stored)| {
                let Stored::File(place, quality) = stored else { return None };
                let start = SegmentName { timeline, log, segment }.start(segment_size)?;
                let time = place.modified()?;
                whole(*quality).then(|| (start.advance(u64::from(segment_size)), time))
            })
            .collect()
    }

    /// The segment in `wanted`'s place on the highest timeline from `lowest` to `wanted.timeline`, of those that
    /// belong to the history of the newest timeline allowed, if that is at hand.
    #[must_use]
    pub fn find(&self, wanted: SegmentName, lowest: u32, segment_size: u32) -> Option<SegmentName> {
        if lowest > wanted.timeline {
            return None;
        }
        let target = self.newest_timeline(wanted.timeline);
        let (log, segment) = (wanted.log, wanted.segment);
        self.stored
            .range((log, segment, lowest)..=(log, segment, wanted.timeline))
            .rev()
            .map(|(&(_, _, timeline), _)| SegmentName { timeline, ..wanted })
            .find(|name| self.is_in_history(*name, target, segment_size))
    }

    /// The first segment after `name`'s place that is on a timeline from `name`'s to `highest`.
    #[must_use]
    pub fn after(&self, name: SegmentName, highest: u32, segment_size: u32) -> Option<SegmentName> {
        let target = self.newest_timeline(highest);
        self.stored
            .range((name.log, name.segment.saturating_add(1), 0)..)
            .map(|(&(log, segment, timeline), _)| SegmentName { timeline, log, segment })
            .filter(|other| (name.timeline..=highest).contains(&other.timeline))
            .find(|other| self.is_in_history(*other, target, segment_size))
    }

    /// Timelines whose histories are at hand, with the text of a file for each, which gives no reasons.
    pub fn histories(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        self.histories.texts()
    }

    /// The newest timeline up to `highest` that has a segment or a history.
    fn newest_timeline(&self, highest: u32) -> u32 {
        self.timelines.range(..=highest).next_back().copied().unwrap_or(1)
    }

    fn is_in_history(&self, name: SegmentName, target: u32, segment_size: u32) -> bool {
        let Some(start) = name.start(segment_size) else { return false };
        let end = start.advance(u64::from(segment_size));
        self.histories.holds(target, name.timeline, start, end)
    }

    /// Opens the further files of segments that there are several of, as far as that is possible.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = (SegmentName, SegmentFile)> + '_ {
        let open = |name, stored: &Stored| stored.open(name, &self.watch).ok();
        self.duplicates.iter().filter_map(move |(name, stored)| Some((*name, open(*name, stored)?)))
    }

    /// Opens a segment that [`Segments::names`] listed.
    ///
    /// # Errors
    /// [`Error::Io`] when the file has gone, or may not be read; [`Error::NotAFile`]; [`Error::Interrupted`].
    pub fn open(&self, name: SegmentName) -> Result<SegmentFile, Error> {
        match self.stored.get(&(name.log, name.segment, name.timeline)) {
            Some(stored) => stored.open(name, &self.watch),
            None => {
                let (path, source) = (PathBuf::from(name.to_string()), io::ErrorKind::NotFound.into());
                Err(Error::Io { action: "open file", path, source })
            }
        }
    }
}

fn nth_line(text: &str, line: usize) -> String {
    text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned()
}

/// An open segment, read forwards.
#[derive(Debug)]
pub struct SegmentFile {
    input: Input,
    path: PathBuf,
    position: u32,
    watch: Watch,
}

enum Input {
    File(File),
    Object(ObjectFile),
    Memory(Cursor<Arc<[u8]>>),
    Compressed(Format, Box<dyn Read + Send + Sync>),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::File(file) => file.fmt(f),
            Input::Object(file) => file.fmt(f),
            Input::Memory(bytes) => write!(f, "{} bytes", bytes.get_ref().len()),
            Input::Compressed(format, _) => format.fmt(f),
        }
    }
}

impl SegmentFile {
    pub(crate) fn open(place: Place, watch: &Watch) -> Result<SegmentFile, Error> {
        watch.check()?;
        SegmentFile::of_opened(archive::open(&place, watch), place, watch)
    }

    /// The same for a caller that will not read further than the first page.
    pub(crate) fn open_head(place: Place, watch: &Watch) -> Result<SegmentFile, Error> {
        watch.check()?;
        SegmentFile::of_opened(archive::open_head(&place, watch), place, watch)
    }

    fn of_opened(opened: io::Result<Opened>, place: Place, watch: &Watch) -> Result<SegmentFile, Error> {
        let path = place.path().to_owned();
        let input = match opened {
            Ok(Opened::Plain(file)) => Input::File(file),
            Ok(Opened::PlainObject(file)) => Input::Object(file),
            Ok(Opened::Compressed(format, input)) => Input::Compressed(format, input),
            Ok(Opened::Encrypted(why)) => return Err(Error::Encrypted { path, why }),
            Ok(Opened::Special(what)) => return Err(Error::NotAFile { path, what }),
            // A stop may have kept the first bytes from being read.
            Err(_) if watch.check().is_err() => return Err(Error::Interrupted),
            Err(source) => return Err(Error::Io { action: "open file", path, source }),
        };
        Ok(SegmentFile { input, path, position: 0, watch: watch.clone() })
    }

    fn of_memory(name: SegmentName, bytes: &Arc<[u8]>, watch: &Watch) -> Result<SegmentFile, Error> {
        let path = PathBuf::from(name.to_string());
        let cursor = Cursor::new(Arc::clone(bytes));
        let input = match Format::of(bytes) {
            None => Input::Memory(cursor),
            Some(format) => match archive::decoder(format, cursor) {
                Ok(input) => Input::Compressed(format, input),
                Err(source) => return Err(Error::Io { action: "open file", path, source }),
            },
        };
        Ok(SegmentFile { input, path, position: 0, watch: watch.clone() })
    }

    /// Offset of the next byte to be read.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Bytes in the file; None for a compressed one.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system says no.
    pub fn length(&self) -> Result<Option<u64>, Error> {
        match &self.input {
            Input::File(file) => match file.metadata() {
                Ok(metadata) => Ok(Some(metadata.len())),
                Err(source) => Err(self.failed(source)),
            },
            Input::Object(file) => Ok(Some(file.length())),
            Input::Memory(bytes) => Ok(Some(bytes.get_ref().len() as u64)),
            Input::Compressed(..) => Ok(None),
        }
    }

    /// Moves forwards to `offset`; never backwards.
    ///
    /// # Errors
    /// As [`SegmentFile::fill`].
    pub fn skip_to(&mut self, offset: u32) -> Result<(), Error> {
        if offset <= self.position {
            return Ok(());
        }
        let target = SeekFrom::Start(u64::from(offset));
        let moved = match &mut self.input {
            Input::File(file) => file.seek(target),
            Input::Object(file) => file.seek(target),
            Input::Memory(bytes) => bytes.seek(target),
            Input::Compressed(_, input) => {
                let skipped = u64::from(offset - self.position);
                io::copy(&mut input.take(skipped), &mut io::sink())
            }
        };
        moved.map_err(|source| self.failed(source))?;
        self.position = offset;
        Ok(())
    }

    /// An archive that unpacks to less than a segment was cut short; a plain file, or a partial segment, may end
    /// where the server had not written on.
    pub(crate) fn must_be_whole(&self) -> bool {
        matches!(self.input, Input::Compressed(..))
            && matches!(
                file_kind(&self.path),
                Some(FileKind::Segment(_, Quality::Whole | Quality::WholeCompressed))
            )
    }

    /// How the file is compressed; None for a plain one.
    pub(crate) fn format(&self) -> Option<Format> {
        match self.input {
            Input::Compressed(format, _) => Some(format),
            _ => None,
        }
    }

    /// The error of an archive that ended at the present position.
    pub(crate) fn cut_short(&self) -> Error {
        self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early"))
    }

    /// Fills `buffer`, less only where the file ends; the number of bytes read.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system says no, [`Error::Archive`] when a file cannot be unpacked,
    /// [`Error::Interrupted`] when the pass was stopped.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.watch.check()?;
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = match &mut self.input {
                Input::File(file) => file.read(rest),
                Input::Object(file) => file.read(rest),
                Input::Memory(bytes) => bytes.read(rest),
                Input::Compressed(_, input) => input.read(rest),
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.watch.add(filled as u64);
        self.position = self.position.saturating_add(u32::try_from(filled).unwrap_or(u32::MAX));
        Ok(filled)
    }

    fn failed(&self, source: io::Error) -> Error {
        if let Err(interrupted) = self.watch.check() {
            return interrupted;
        }
        let path = self.path.clone();
        match &self.input {
            Input::Compressed(format, _) => {
                Error::Archive { path, format: format.to_string(), position: self.position, source }
            }
            _ => Error::Io { action: "read from file", path, source },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SIZE: u32 = 16 << 20;

    fn name(timeline: u32, segment: u32) -> SegmentName {
        SegmentName { timeline, log: 0, segment }
    }

    fn segments(names: &[&str]) -> Segments {
        let mut all = Segments::from_memory([]);
        for name in names {
            let is_named = all.add_file(PathBuf::from(name).into()).unwrap();
            assert!(is_named, "{name}");
        }
        all
    }

    #[test]
    fn the_highest_timeline_wins_and_never_goes_back() {
        let at_hand = segments(&[
            "wal/000000010000000000000004",
            "wal/000000010000000000000005.partial",
            "wal/000000020000000000000005",
            "wal/000000010000000000000006",
        ]);
        assert_eq!(at_hand.names().count(), 4);
        assert_eq!(at_hand.find(name(9, 4), 1, SIZE), Some(name(1, 4)));
        assert_eq!(at_hand.find(name(9, 5), 1, SIZE), Some(name(2, 5)));
        assert_eq!(at_hand.find(name(1, 5), 1, SIZE), Some(name(1, 5)));
        // Once on timeline 2, timeline 1's next segment is another history.
        assert_eq!(at_hand.find(name(9, 6), 2, SIZE), None);
        assert_eq!(at_hand.after(name(2, 5), 9, SIZE), None);
        assert_eq!(at_hand.after(name(1, 5), 9, SIZE), Some(name(1, 6)));
    }

    #[test]
    fn a_history_chooses_among_timelines() {
        let mut at_hand = segments(&[
            "000000010000000000000003",
            "000000020000000000000003",
            "000000030000000000000003",
            "000000030000000000000004",
            "000000020000000000000004",
        ]);
        // Timeline 3 branched off timeline 1 within segment 3; timeline 2 is a cousin.
        at_hand.timelines.insert(3);
        at_hand.histories.add(3, "1\t0/3000100\tpromotion").unwrap();
        assert_eq!(at_hand.find(name(u32::MAX, 3), 0, SIZE), Some(name(3, 3)));
        assert_eq!(at_hand.find(name(u32::MAX, 4), 1, SIZE), Some(name(3, 4)));
        at_hand.stored.remove(&(0, 3, 3)).unwrap();
        assert_eq!(at_hand.find(name(u32::MAX, 3), 0, SIZE), Some(name(1, 3)), "and not timeline 2");
        assert_eq!(at_hand.find(name(2, 4), 0, SIZE), Some(name(2, 4)), "unless it is asked for");
    }

    #[test]
    fn the_best_file_of_a_segment_is_read() {
        let names = [
            "a/000000010000000000000005",
            "b/000000010000000000000005.zst",
            "c/000000010000000000000005.partial",
            "d/000000010000000000000005.gz.partial",
        ];
        for first in 0..names.len() {
            let mut order = names.to_vec();
            order.rotate_left(first);
            for count in 1..=order.len() {
                let some = order.get(..count).unwrap();
                let best = names.iter().find(|name| some.contains(name)).unwrap();
                let at_hand = segments(some);
                let stored = at_hand.stored.values().next().unwrap();
                assert!(
                    matches!(stored, Stored::File(place, _) if place.path() == Path::new(best)),
                    "{stored:?}"
                );
            }
        }
    }

    #[test]
    fn a_folder_without_segments_is_an_error() {
        let folder = std::env::temp_dir().join(format!("walproof-source-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let empty = Segments::from_paths(&[&folder]).unwrap_err();
        assert_eq!(empty.to_string(), format!("could not find any WAL file in \"{}\"", folder.display()));
        let note = folder.join("note.txt");
        std::fs::write(&note, "x").unwrap();
        let other = Segments::from_paths(&[&note]).unwrap_err().to_string();
        assert_eq!(other, format!("file \"{}\" is not a WAL segment", note.display()));
        let history = folder.join("00000002.history");
        std::fs::write(&history, "1\t0/1000000\n?\n").unwrap();
        let damaged = Segments::from_paths(&[&folder]).unwrap_err();
        assert_eq!(damaged.to_string(), format!("invalid timeline history \"{}\"", history.display()));
        assert_eq!(damaged.detail().unwrap(), "line 2: ?");
        std::fs::remove_dir_all(&folder).unwrap();
        let gone = Segments::from_paths(&[folder.join("000000010000000000000001")]).unwrap_err().to_string();
        assert!(gone.starts_with("could not open file \""), "{gone}");
    }
}
