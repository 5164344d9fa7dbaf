//! What happens to which kind of file: the moments at which power can be cut.

/// The part that a file plays, known from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileClass {
    /// A WAL segment, or one that is being made.
    Wal,
    /// A fork of a relation, except its visibility map.
    Relation,
    /// The visibility map of a relation.
    Map,
    /// Anything else: control file, transaction status, maps, state.
    Other,
}

impl FileClass {
    /// The class for a path relative to a root. In a root of its own for WAL or a tablespace, paths start
    /// without the folder's name, so the file's name has to be enough.
    #[must_use]
    pub fn of(path: &[u8]) -> Self {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_hex = |text: &[u8]| text.iter().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b));
        if name.starts_with(b"xlogtemp.") || (name.len() == 24 && is_hex(name)) {
            return Self::Wal;
        }
        // 16384, 16384_fsm, 16384.1. An SLRU segment (0000) looks the same and is told by its folder:
        // pg_xact/0000, pg_multixact/offsets/0000.
        let number = name.split(|byte| matches!(byte, b'_' | b'.')).next().unwrap_or_default();
        if !number.is_empty() && number.iter().all(u8::is_ascii_digit) && !path.starts_with(b"pg_") {
            return if is_map(name) { Self::Map } else { Self::Relation };
        }
        Self::Other
    }

    /// As stored in the shared state.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Self::Other => 0,
            Self::Wal => 1,
            Self::Relation => 2,
            Self::Map => 3,
        }
    }

    /// The class for a code that [`FileClass::code`] gave.
    #[must_use]
    pub const fn from_code(code: u64) -> Self {
        match code {
            1 => Self::Wal,
            2 => Self::Relation,
            3 => Self::Map,
            _ => Self::Other,
        }
    }
}

/// `16384_vm`, `16384_vm.1`.
fn is_map(name: &[u8]) -> bool {
    let fork = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    fork.ends_with(b"_vm")
}

/// Whether a server throws the file away when it starts, so that nothing in it can matter: it is not
/// tracked. Temporary files of queries, and shared memory kept in files.
#[must_use]
pub fn is_transient(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part.starts_with(b"pgsql_tmp") || part == b"pg_dynshmem")
}

/// A kind of event. Power is cut at the n-th event of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A write into a WAL segment, before it happens.
    WalWrite,
    /// A flush of a WAL segment, while it is under way.
    WalFlush,
    /// A write into a relation, before it happens.
    RelationWrite,
    /// A flush of a relation, which a checkpoint makes, while it is under way.
    RelationFlush,
    /// A rename, before it happens.
    Rename,
    /// A write of several 4 KiB blocks, when some of them are written.
    TornWrite,
    /// A write of several 4 KiB blocks into a relation, when some of them are written: a torn page.
    TornPage,
    /// A write of several 4 KiB blocks into a visibility map, when some of them are written.
    TornMap,
}

impl Event {
    /// All kinds; the position is the counter's in the shared state.
    pub const ALL: [Self; 8] = [
        Self::WalWrite,
        Self::WalFlush,
        Self::RelationWrite,
        Self::RelationFlush,
        Self::Rename,
        Self::TornWrite,
        Self::TornPage,
        Self::TornMap,
    ];

    /// Its place in [`Event::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As typed and stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WalWrite => "wal write",
            Self::WalFlush => "wal flush",
            Self::RelationWrite => "relation write",
            Self::RelationFlush => "relation flush",
            Self::Rename => "rename",
            Self::TornWrite => "torn write",
            Self::TornPage => "torn page",
            Self::TornMap => "torn map",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_paths() {
        for (path, class) in [
            ("pg_wal/00000001000000000000000A", FileClass::Wal),
            ("00000001000000000000000A", FileClass::Wal),
            ("pg_wal/xlogtemp.4711", FileClass::Wal),
            ("pg_wal/00000002.history", FileClass::Other),
            ("base/5/16384", FileClass::Relation),
            ("base/5/16384_vm", FileClass::Map),
            ("base/5/16384_vm.1", FileClass::Map),
            ("base/5/16384_fsm", FileClass::Relation),
            ("base/5/16384.12", FileClass::Relation),
            ("global/1262", FileClass::Relation),
            ("PG_18_202506291/5/16390", FileClass::Relation),
            ("global/pg_control", FileClass::Other),
            ("base/5/pg_filenode.map", FileClass::Other),
            ("base/5/PG_VERSION", FileClass::Other),
            ("pg_xact/0000", FileClass::Other),
            ("pg_multixact/offsets/0000", FileClass::Other),
            ("", FileClass::Other),
        ] {
            assert_eq!(FileClass::of(path.as_bytes()), class, "{path}");
            assert_eq!(FileClass::from_code(class.code()), class);
        }
    }

    #[test]
    fn temporary_files_are_told() {
        assert!(is_transient(b"base/pgsql_tmp/pgsql_tmp123.0"));
        assert!(is_transient(b"PG_15_202209061/pgsql_tmp"));
        assert!(!is_transient(b"base/5/16384"));
    }

    #[test]
    fn names_and_places_agree() {
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event.index(), place);
            let mut named = Event::ALL.into_iter().filter(|other| other.name() == event.name());
            assert_eq!((named.next(), named.next()), (Some(event), None));
        }
    }
}
