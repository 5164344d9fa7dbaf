//! Which PostgreSQL wrote the WAL, told from the magic number that begins each page.

use std::fmt;

/// A major version of PostgreSQL whose WAL this crate reads.
///
/// The magic numbers are `XLOG_PAGE_MAGIC` of src/include/access/xlog_internal.h in each version's sources;
/// the number changes with every change of the format, so it names the major version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PgVersion {
    /// PostgreSQL 13, magic D106.
    V13,
    /// PostgreSQL 14, magic D10D.
    V14,
    /// PostgreSQL 15, magic D110.
    V15,
    /// PostgreSQL 16, magic D113.
    V16,
    /// PostgreSQL 17, magic D116.
    V17,
    /// PostgreSQL 18, magic D118.
    V18,
    /// PostgreSQL 19, magic D122 (19~rc1; a beta had D120).
    V19,
}

impl PgVersion {
    /// Every version, oldest first.
    pub const ALL: [PgVersion; 7] = [
        PgVersion::V13,
        PgVersion::V14,
        PgVersion::V15,
        PgVersion::V16,
        PgVersion::V17,
        PgVersion::V18,
        PgVersion::V19,
    ];

    /// The version whose pages begin with `magic`.
    #[must_use]
    pub fn from_magic(magic: u16) -> Option<PgVersion> {
        PgVersion::ALL.into_iter().find(|version| version.magic() == magic)
    }

    /// The version whose development (betas among it) wrote pages that begin with `magic`, which no release
    /// did: the number lies between those of two releases.
    #[must_use]
    pub fn developed_with(magic: u16) -> Option<PgVersion> {
        let is_development = magic > PgVersion::V13.magic() && PgVersion::from_magic(magic).is_none();
        PgVersion::ALL.into_iter().find(|version| is_development && version.magic() > magic)
    }

    /// `XLOG_PAGE_MAGIC` of the version.
    #[must_use]
    pub fn magic(self) -> u16 {
        match self {
            PgVersion::V13 => 0xD106,
            PgVersion::V14 => 0xD10D,
            PgVersion::V15 => 0xD110,
            PgVersion::V16 => 0xD113,
            PgVersion::V17 => 0xD116,
            PgVersion::V18 => 0xD118,
            PgVersion::V19 => 0xD122,
        }
    }

    /// The major version number: 13 to 19.
    #[must_use]
    pub fn major(self) -> u32 {
        match self {
            PgVersion::V13 => 13,
            PgVersion::V14 => 14,
            PgVersion::V15 => 15,
            PgVersion::V16 => 16,
            PgVersion::V17 => 17,
            PgVersion::V18 => 18,
            PgVersion::V19 => 19,
        }
    }
}

impl fmt::Display for PgVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.major())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_between_two_releases_is_of_a_pre_release() {
        assert_eq!(PgVersion::developed_with(0xD120), Some(PgVersion::V19));
        assert_eq!(PgVersion::developed_with(0xD119), Some(PgVersion::V19));
        assert_eq!(PgVersion::developed_with(0xD107), Some(PgVersion::V14));
        for unknown in [0, 0xD105, 0xD123, 0xFFFF] {
            assert_eq!(PgVersion::developed_with(unknown), None, "{unknown:04X}");
        }
        for version in PgVersion::ALL {
            assert_eq!(PgVersion::developed_with(version.magic()), None);
            assert_eq!(PgVersion::from_magic(version.magic()), Some(version));
        }
    }
}
