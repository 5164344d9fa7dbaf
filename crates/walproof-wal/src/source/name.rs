//! What a file name says: which segment a file holds, and in what state.
//!
//! ```text
//! 000000010000000000000001                     pg_wal, archive_command, Barman (compressed or not)
//! 000000010000000000000001.gz .lz4 .zst ...    archive_command, pg_receivewal, WAL-G
//! 000000010000000000000001.partial             a promotion, pg_receivewal; with a compression before or after
//! 000000010000000000000001-<sha1>.gz           pgBackRest, and 000000010000000000000001.partial-<sha1>.gz
//! 00000002.history                             with the same endings
//! ```

use std::path::Path;

use crate::lsn::SegmentName;

const COMPRESSED: [&str; 8] = ["gz", "lz4", "zst", "zstd", "xz", "bz2", "lzma", "br"];
const SHA1_DIGITS: usize = 40;

/// How good a file is as a source of its segment, best first: of several files for one segment the best is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quality {
    Whole,
    WholeCompressed,
    Partial,
    PartialCompressed,
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Segment(SegmentName, Quality),
    /// The history of a timeline.
    History(u32),
}

/// None for every other name: backup labels, archive status, temporary files.
pub(super) fn file_kind(path: &Path) -> Option<FileKind> {
    let mut name = path.file_name()?.to_str()?;
    let (mut is_compressed, mut is_partial) = (false, false);
    loop {
        if let Some((rest, ending)) = name.rsplit_once('.') {
            let is_known = match ending {
                "partial" => !std::mem::replace(&mut is_partial, true),
                _ if COMPRESSED.contains(&ending) => !std::mem::replace(&mut is_compressed, true),
                _ => false,
            };
            if is_known {
                name = rest;
                continue;
            }
        }
        match name.rsplit_once('-') {
            Some((rest, sum)) if sum.len() == SHA1_DIGITS && sum.bytes().all(|b| b.is_ascii_hexdigit()) => {
                name = rest;
            }
            _ => break,
        }
    }
    if let Some(timeline) = name.strip_suffix(".history") {
        let is_number = timeline.len() == 8 && timeline.bytes().all(|b| b.is_ascii_hexdigit());
        return is_number.then(|| u32::from_str_radix(timeline, 16).ok().map(FileKind::History)).flatten();
    }
    let quality = match (is_partial, is_compressed) {
        (false, false) => Quality::Whole,
        (false, true) => Quality::WholeCompressed,
        (true, false) => Quality::Partial,
        (true, true) => Quality::PartialCompressed,
    };
    SegmentName::parse(name).map(|segment| FileKind::Segment(segment, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_archiver_s_names() {
        let segment = SegmentName { timeline: 1, log: 0, segment: 0x2A };
        let sum = "8a6e3e0c7a1f4f1fb9f1d0f3b1b8c8f5a0a0b0c0";
        let cases = [
            (String::new(), Quality::Whole),
            (".gz".into(), Quality::WholeCompressed),
            (".lz4".into(), Quality::WholeCompressed),
            (".zst".into(), Quality::WholeCompressed),
            (".xz".into(), Quality::WholeCompressed),
            (".bz2".into(), Quality::WholeCompressed),
            (".lzma".into(), Quality::WholeCompressed),
            (".br".into(), Quality::WholeCompressed),
            (".partial".into(), Quality::Partial),
            (".gz.partial".into(), Quality::PartialCompressed),
            (".partial.gz".into(), Quality::PartialCompressed),
            (format!("-{sum}"), Quality::Whole),
            (format!("-{sum}.lz4"), Quality::WholeCompressed),
            (format!(".partial-{sum}.zst"), Quality::PartialCompressed),
        ];
        for (ending, quality) in cases {
            let path = format!("/archive/0000000100000000/00000001000000000000002A{ending}");
            assert_eq!(file_kind(Path::new(&path)), Some(FileKind::Segment(segment, quality)), "{path}");
        }
        assert_eq!(file_kind(Path::new("00000002.history.gz")), Some(FileKind::History(2)));
        assert_eq!(file_kind(Path::new(&format!("0000000A.history-{sum}"))), Some(FileKind::History(10)));
        for other in [
            "00000001000000000000002A.00000028.backup",
            "00000001000000000000002A.ready",
            "00000001000000000000002A.gz.gz",
            "00000001000000000000002a",
            "000002.history",
            "xlogtemp.42",
            "RECOVERYXLOG",
        ] {
            assert_eq!(file_kind(Path::new(other)), None, "{other}");
        }
    }
}
