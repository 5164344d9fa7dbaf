//! Writes WAL: records of any content, laid out in pages and segments as a server would.

use walproof_wal::{checksum, Lsn, PgVersion, SegmentName, PAGE_SIZE};

pub const SEGMENT_SIZE: u32 = 1 << 20;
pub const SYSTEM_IDENTIFIER: u64 = 7_300_000_000_000_000_001;
const PAGE: u64 = PAGE_SIZE as u64;

/// A WAL in the making.
pub struct Forge {
    version: PgVersion,
    timeline: u32,
    segment_size: u32,
    start: Lsn,
    /// Everything from `start` on.
    bytes: Vec<u8>,
    /// The last record.
    pub prev: Lsn,
}

impl Forge {
    /// Begins at the first byte of segment `number` of 1 MB.
    pub fn new(version: PgVersion, number: u64) -> Forge {
        Forge::with_segment_size(version, number, SEGMENT_SIZE)
    }

    /// Begins at the first byte of segment `number` of that size.
    pub fn with_segment_size(version: PgVersion, number: u64, segment_size: u32) -> Forge {
        let start = Lsn(number * u64::from(segment_size));
        Forge { version, timeline: 1, segment_size, start, bytes: Vec::new(), prev: Lsn(0) }
    }

    /// Where the next record will be.
    pub fn position(&mut self) -> Lsn {
        self.begin_page(0, 0);
        self.at()
    }

    pub fn set_timeline(&mut self, timeline: u32) {
        self.timeline = timeline;
    }

    fn at(&self) -> Lsn {
        self.start.advance(self.bytes.len() as u64)
    }

    /// Writes a page header if a page begins here.
    fn begin_page(&mut self, flags: u16, remaining: u32) {
        let at = self.at();
        if at.offset_in(PAGE) != 0 {
            return;
        }
        let is_long = at.offset_in(u64::from(self.segment_size)) == 0;
        let info = flags | if is_long { 0x2 } else { 0 };
        self.bytes.extend(self.version.magic().to_le_bytes());
        self.bytes.extend(info.to_le_bytes());
        self.bytes.extend(self.timeline.to_le_bytes());
        self.bytes.extend(at.0.to_le_bytes());
        self.bytes.extend(remaining.to_le_bytes());
        self.bytes.extend([0; 4]);
        if is_long {
            self.bytes.extend(SYSTEM_IDENTIFIER.to_le_bytes());
            self.bytes.extend(self.segment_size.to_le_bytes());
            self.bytes.extend(PAGE_SIZE.to_le_bytes());
        }
    }

    /// Adds a record with that content after its header; its LSN.
    pub fn record(&mut self, rmgr: u8, info: u8, xid: u32, content: &[u8]) -> Lsn {
        self.write(rmgr, info, xid, content, usize::MAX)
    }

    /// Adds the beginning of a record, up to `bytes` of it at a page's end, and goes on as a server that
    /// recovered without the rest; its LSN.
    pub fn lost_record(&mut self, content: &[u8], pages: usize) -> Lsn {
        let prev = self.prev;
        let lsn = self.write(0, 0x20, 0, content, pages);
        self.prev = prev;
        // XLP_FIRST_IS_OVERWRITE_CONTRECORD, which 19 moved.
        self.begin_page(if self.version < PgVersion::V19 { 0x8 } else { 0x4 }, 0);
        lsn
    }

    fn write(&mut self, rmgr: u8, info: u8, xid: u32, content: &[u8], pages: usize) -> Lsn {
        let lsn = self.position();
        let length = u32::try_from(24 + content.len()).unwrap();
        let mut record = Vec::new();
        record.extend(length.to_le_bytes());
        record.extend(xid.to_le_bytes());
        record.extend(self.prev.0.to_le_bytes());
        record.extend([info, rmgr, 0, 0, 0, 0, 0, 0]);
        record.extend(content);
        let crc = checksum(&record).unwrap();
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        let mut rest = record.as_slice();
        let mut pages_left = pages;
        while !rest.is_empty() && pages_left > 0 {
            self.begin_page(0x1, u32::try_from(rest.len()).unwrap());
            let room = usize::try_from(PAGE - self.at().offset_in(PAGE)).unwrap();
            let (piece, later) = rest.split_at(room.min(rest.len()));
            self.bytes.extend(piece);
            rest = later;
            pages_left -= 1;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.prev = lsn;
        lsn
    }

    /// Adds records so that the next one begins at `lsn`, in this segment and after no page's header.
    pub fn fill_to(&mut self, lsn: Lsn) {
        while lsn - self.position() > 3 * PAGE {
            self.record(21, 0, 0, &main_data(7_000));
        }
        // What a record of one length leads to tells the length that is wanted.
        for length in (0..3 * PAGE as usize).step_by(8) {
            let (bytes, prev) = (self.bytes.len(), self.prev);
            self.record(21, 0, 0, &main_data(length + 260));
            if self.position() == lsn {
                return;
            }
            self.bytes.truncate(bytes);
            self.prev = prev;
        }
        panic!("no record ends before {lsn}");
    }

    /// Leaves the rest of the segment empty, as after XLOG/SWITCH.
    pub fn leave_segment(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.segment_size as usize), 0);
    }

    /// Adds XLOG/SWITCH and leaves the rest of the segment empty.
    pub fn switch(&mut self) -> Lsn {
        let lsn = self.record(0, 0x40, 0, &[]);
        self.leave_segment();
        lsn
    }

    /// The WAL in segments, the last one filled up with zeros.
    pub fn segments(&self) -> Vec<(SegmentName, Vec<u8>)> {
        self.bytes
            .chunks(self.segment_size as usize)
            .enumerate()
            .map(|(index, chunk)| {
                let at = self.start.advance(index as u64 * u64::from(self.segment_size));
                let mut bytes = chunk.to_vec();
                bytes.resize(self.segment_size as usize, 0);
                (SegmentName::holding(at, self.timeline, self.segment_size), bytes)
            })
            .collect()
    }
}

/// Content that is main data alone, as XLOG/NOOP could have.
pub fn main_data(length: usize) -> Vec<u8> {
    let data = vec![0xAB; length];
    let mut content = match u8::try_from(length) {
        _ if length == 0 => Vec::new(),
        Ok(short) => vec![255, short],
        Err(_) => [&[254][..], &u32::try_from(length).unwrap().to_le_bytes()].concat(),
    };
    content.extend(data);
    content
}
