//! WAL locations and the names of the files that hold them.

use std::fmt;
use std::ops::Sub;
use std::str::FromStr;

use crate::error::Error;

/// A WAL location: bytes since the beginning of the WAL, written as two hexadecimal halves.
///
/// ```
/// use walproof_wal::Lsn;
/// let lsn: Lsn = "16/B374D848".parse()?;
/// assert_eq!(lsn.to_string(), "16/B374D848");
/// # Ok::<(), walproof_wal::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The location `bytes` further on; stays at the largest location rather than wrapping around.
    #[must_use]
    pub fn advance(self, bytes: u64) -> Lsn {
        Lsn(self.0.saturating_add(bytes))
    }

    /// The first multiple of `unit` (a power of two) at or before this location.
    #[must_use]
    pub fn align_down(self, unit: u64) -> Lsn {
        Lsn(self.0 & !(unit - 1))
    }

    /// The first multiple of `unit` (a power of two) at or after this location.
    #[must_use]
    pub fn align_up(self, unit: u64) -> Lsn {
        self.advance(unit - 1).align_down(unit)
    }

    /// Bytes since the last multiple of `unit` (a power of two).
    #[must_use]
    pub fn offset_in(self, unit: u64) -> u64 {
        self.0 & (unit - 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Lsn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Lsn, Error> {
        let half = |digits: &str| {
            let fits = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            fits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Lsn(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| Error::Lsn { text: text.to_owned() })
    }
}

impl Sub for Lsn {
    type Output = u64;

    /// Bytes from `earlier` to here; 0 when `earlier` is the later one.
    fn sub(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The name of a WAL segment file: timeline, then the segment's number in two parts whose split depends on
/// the segment size (`XLogFileName`, src/include/access/xlog_internal.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Timeline the file belongs to.
    pub timeline: u32,
    /// High half of the segment's first LSN.
    pub log: u32,
    /// Number of the segment within `log`.
    pub segment: u32,
}

impl SegmentName {
    /// The segment of `timeline` that holds `lsn`, for segments of `segment_size` bytes.
    #[must_use]
    pub fn holding(lsn: Lsn, timeline: u32, segment_size: u32) -> SegmentName {
        let size = u64::from(segment_size.max(1));
        let low = (lsn.0 & 0xFFFF_FFFF) / size;
        SegmentName {
            timeline,
            log: u32::try_from(lsn.0 >> 32).unwrap_or(u32::MAX),
            segment: u32::try_from(low).unwrap_or(u32::MAX),
        }
    }

    /// Reads `00000001000000000000003A`; None for any other name.
    #[must_use]
    pub fn parse(name: &str) -> Option<SegmentName> {
        let is_name = name.len() == 24 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
        let part = |from| u32::from_str_radix(name.get(from..from + 8)?, 16).ok();
        is_name.then(|| Some(SegmentName { timeline: part(0)?, log: part(8)?, segment: part(16)? })).flatten()
    }

    /// First LSN of the segment; None when no segment of that size can have this name.
    #[must_use]
    pub fn start(&self, segment_size: u32) -> Option<Lsn> {
        let low = u64::from(self.segment) * u64::from(segment_size);
        (low < 1 << 32).then(|| Lsn(u64::from(self.log) << 32 | low))
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}{:08X}{:08X}", self.timeline, self.log, self.segment)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lsn_reads_what_it_writes_and_refuses_the_rest() {
        for text in ["0/0", "0/3A0001F8", "FFFFFFFF/FFFFFFFF", "16/B374D848"] {
            assert_eq!(text.parse::<Lsn>().unwrap().to_string(), text);
        }
        for text in ["", "/", "0", "0/", "/0", "0/123456789", "0/G", "+1/0", "0/-1", "1/2/3"] {
            let error = text.parse::<Lsn>().unwrap_err().to_string();
            assert_eq!(error, format!("invalid LSN: \"{text}\""));
        }
    }

    #[test]
    fn segment_names_follow_the_segment_size() {
        let megabyte = 1 << 20;
        let name = SegmentName::holding(Lsn(0x1_0012_3456), 3, megabyte);
        assert_eq!(name.to_string(), "000000030000000100000001");
        assert_eq!(name.start(megabyte), Some(Lsn(0x1_0010_0000)));
        assert_eq!(SegmentName::parse("000000030000000100000001"), Some(name));
        // Segment 0x100 exists with 1 MB segments (4096 to a log) but not with 16 MB ones (256 to a log).
        let far = SegmentName::parse("000000010000000000000100").unwrap();
        assert_eq!(far.start(megabyte), Some(Lsn(0x1000_0000)));
        assert_eq!(far.start(16 * megabyte), None);
        for other in ["00000002.history", "archive_status", "00000001000000000000003a", "xlogtemp.123"] {
            assert_eq!(SegmentName::parse(other), None);
        }
    }
}
