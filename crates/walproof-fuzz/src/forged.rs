//! Instructions to WAL: what follows from any bytes is records of which headers, links and checksums are right, over
//! several segments of 1 MB, and then damage.

use walproof_wal::{checksum, Lsn, PgVersion, SegmentName, PAGE_SIZE};

use crate::forge::{main_data, Forge, SEGMENT_SIZE};

const FIRST_RECORD: usize = 40;
/// Bytes of WAL that are made at most; each of 1 MB costs time whatever is in it.
const MOST_BYTES: u64 = 6 << 20;
const FIRST_SEGMENT: u64 = 3;
/// XLOG/CHECKPOINT_ONLINE and CHECKPOINT_SHUTDOWN.
const CHECKPOINTS: [u8; 2] = [0x10, 0x00];
/// Commits and aborts, of prepared transactions, too; with and without what was dropped.
const ENDS: [u8; 8] = [0x00, 0x20, 0x30, 0x40, 0x80, 0xA0, 0xB0, 0xC0];

/// Input that is used up from its beginning; zeros after its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        array.iter_mut().zip(self.take(N)).for_each(|(place, byte)| *place = *byte);
        array
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A WAL and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Wal {
    pub(crate) segments: Vec<(SegmentName, Vec<u8>)>,
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
}

/// Carries out instructions until they, or the room, end.
pub(crate) fn wal(script: &mut Script<'_>) -> Wal {
    let version = version(script.byte());
    let mut forge = Forge::new(version, FIRST_SEGMENT);
    let start = forge.position();
    let mut records = vec![start];
    let mut damage = Vec::new();
    while !script.0.is_empty() && forge.position() - start < MOST_BYTES {
        let instruction = script.byte();
        match instruction % 16 {
            0 | 1 => {
                let (rmgr, info, length) = (script.byte() % 24, script.byte(), script.byte());
                records.push(forge.record(rmgr, info, 7, script.take(usize::from(length))));
            }
            2..=5 => {
                let (rmgr, info) = (script.byte() % 24, script.byte());
                let content = blocks(script, instruction >> 4, version);
                records.push(forge.record(rmgr, info, 7, &content));
            }
            6 | 7 => {
                let (rmgr, info, length) = (script.byte() % 24, script.byte(), script.short());
                records.push(forge.record(rmgr, info, 0, &main_data(usize::from(length))));
            }
            8 | 9 => {
                // The end of a transaction: its time, then what it dropped.
                let info = ENDS.get(usize::from(instruction >> 5)).copied().unwrap_or_default();
                let time = time(script);
                let content = [&time.to_le_bytes(), script.take(usize::from(instruction >> 4) * 6)].concat();
                records.push(forge.record(1, info, 7, &with_length(&content)));
            }
            10 | 11 => {
                let back = usize::from(script.byte()) % records.len();
                let redo = records.iter().rev().nth(back).copied().unwrap_or(start);
                let content = checkpoint(version, redo, instruction & 0x20 != 0, time(script) / 1_000_000);
                let info = CHECKPOINTS.get(usize::from(instruction >> 4 & 1)).copied().unwrap_or_default();
                records.push(forge.record(0, info, 0, &with_length(&content)));
            }
            12 => records.push(forge.switch()),
            13 => {
                let length = 8192 + usize::from(script.short());
                forge.lost_record(&main_data(length), 1 + usize::from(instruction >> 4) % 2);
            }
            14 => forge.set_timeline(1 + u32::from(instruction >> 5)),
            _ => damage.push((script.byte(), script.byte(), script.array())),
        }
    }
    let end = forge.position();
    let mut segments = forge.segments();
    for (what, which, [low, middle, high]) in damage {
        spoil(&mut segments, what, which, u32::from_le_bytes([low, middle, high, 0]));
    }
    Wal { segments, start, end }
}

pub(crate) fn version(byte: u8) -> PgVersion {
    PgVersion::ALL.get(usize::from(byte) % PgVersion::ALL.len()).copied().unwrap_or(PgVersion::V13)
}

fn spoil(segments: &mut Vec<(SegmentName, Vec<u8>)>, what: u8, which: u8, at: u32) {
    let place = usize::from(which) % segments.len().max(1);
    let Some((name, bytes)) = segments.get_mut(place) else { return };
    let at = at as usize % SEGMENT_SIZE as usize;
    match what {
        0..=15 => drop(segments.remove(place)),
        16..=31 => bytes.truncate(at),
        32..=47 => name.timeline = 1 + u32::from(what % 4),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= what;
            }
        }
    }
}

/// Microseconds since 2000: sometimes any, mostly a little later than others.
fn time(script: &mut Script<'_>) -> i64 {
    match script.byte() {
        255 => i64::from_le_bytes(script.array()),
        minutes => i64::from(minutes) * 30_000_000 + i64::from(script.short()),
    }
}

fn checkpoint(version: PgVersion, redo: Lsn, has_images: bool, time: i64) -> Vec<u8> {
    let mut bytes = redo.0.to_le_bytes().to_vec();
    bytes.extend([1, 0, 0, 0, 1, 0, 0, 0, u8::from(has_images)]);
    bytes.resize(if version < PgVersion::V19 { 64 } else { 72 }, 0);
    bytes.extend(time.to_le_bytes());
    bytes.resize(bytes.len() + 16, 0);
    bytes
}

/// With the header of main data.
fn with_length(data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
    [&[255, length], data.get(..usize::from(length)).unwrap_or_default()].concat()
}

/// References to blocks, some with images that have a hole, as `XLogRecordAssemble` writes them
/// (src/backend/access/transam/xloginsert.c).
fn blocks(script: &mut Script<'_>, count: u8, version: PgVersion) -> Vec<u8> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for id in 0..=count % 4 {
        let [flags, relation, block] = script.array();
        let (has_image, has_data, will_init) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        let bit = |is_set, bit| if is_set { bit } else { 0u8 };
        let fork = flags >> 3 & 3;
        head.extend([id, fork | bit(has_image, 0x10) | bit(has_data, 0x20) | bit(will_init, 0x40)]);
        head.extend(if has_data { 4u16 } else { 0 }.to_le_bytes());
        if has_image {
            let hole = 8192 - 32 * (1 + u16::from(flags >> 5));
            head.extend((8192 - hole).to_le_bytes());
            head.extend(24u16.to_le_bytes());
            // BKPIMAGE_HAS_HOLE and BKPIMAGE_APPLY, which 15 moved.
            head.push(if version < PgVersion::V15 { 0x5 } else { 0x3 });
            tail.resize(tail.len() + usize::from(8192 - hole), block);
        }
        head.extend(1663u32.to_le_bytes());
        head.extend(5u32.to_le_bytes());
        head.extend((16384 + u32::from(relation % 8)).to_le_bytes());
        head.extend((u32::from(block) << (relation >> 5)).to_le_bytes());
        tail.resize(tail.len() + if has_data { 4 } else { 0 }, relation);
    }
    let main = script.byte() % 32;
    head.extend([255, main]);
    let mut data = script.take(usize::from(main)).to_vec();
    data.resize(usize::from(main), 0);
    [head, tail, data].concat()
}

/// The bytes of all segments in a row.
pub(crate) fn joined(segments: &[(SegmentName, Vec<u8>)]) -> Vec<u8> {
    // Not byte by byte: the fuzzer watches each step of such a loop.
    segments.iter().map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>().concat()
}

/// The bytes up to the end of the last page that holds anything.
pub(crate) fn used(bytes: &[u8]) -> usize {
    const ZEROS: &[u8] = &[0; PAGE_SIZE as usize];
    let last = bytes.chunks(ZEROS.len()).rposition(|page| !ZEROS.starts_with(page));
    last.map_or(0, |last| bytes.len().min((last + 1) * ZEROS.len()))
}

/// A segment of one page with one record: version, resource manager, operation, then its content.
pub(crate) fn one_record(input: &[u8]) -> Vec<u8> {
    let mut script = Script(input);
    let (version, rmgr, info) = (version(script.byte()), script.byte(), script.byte());
    let content = script.take(PAGE_SIZE as usize - FIRST_RECORD - 24);
    let mut record = vec![0u8; 24];
    put(&mut record, 0, &(24 + content.len() as u32).to_le_bytes());
    put(&mut record, 16, &[info, rmgr]);
    record.extend(content);
    let crc = checksum(&record).unwrap_or_default();
    put(&mut record, 20, &crc.to_le_bytes());
    let mut page = vec![0u8; PAGE_SIZE as usize];
    put(&mut page, 0, &version.magic().to_le_bytes());
    // A long header, of timeline 1.
    put(&mut page, 2, &[2, 0, 1]);
    put(&mut page, 8, &u64::from(SEGMENT_SIZE).to_le_bytes());
    put(&mut page, 32, &SEGMENT_SIZE.to_le_bytes());
    put(&mut page, 36, &PAGE_SIZE.to_le_bytes());
    put(&mut page, FIRST_RECORD, &record);
    page
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
