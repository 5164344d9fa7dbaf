//! A part as bytes, for files and other machines.
//!
//! ```text
//! "walpart" and a version (1 byte), the fields, CRC-32C of all before it (4 bytes, little-endian)
//! ```
//!
//! Numbers are LEB128 (those that may be negative in zigzag), sets of blocks in the portable form of roaring bitmaps. Parts
//! come from elsewhere: nothing is believed that does not agree with the rest, and no more memory is taken than a small
//! multiple of the file's length. The same counts stand in a part three times (by operation, relation and minute) and as
//! bytes between two locations, so sums that agree cannot overflow.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use super::{End, Head, Part, Reach, RestEnd, Tail};
use crate::accounting::Accounting;
use crate::block::RelFileLocator;
use crate::bytes::Bytes;
use crate::edge::{Begun, Rest, OPENING};
use crate::error::Error;
use crate::fields::ByMethod;
use crate::lsn::Lsn;
use crate::page::{is_segment_size, LONG_HEADER_SIZE};
use crate::pages::WalIdentity;
use crate::rate::{Minute, Rate};
use crate::record::ALIGNMENT;
use crate::relations::{RelationTotals, Relations};
use crate::rmgr::RmgrId;
use crate::tally::{ImageTotals, MethodTotals, OperationTotals, Tally, Totals, TransactionTotals};
use crate::transaction::{Checkpoint, CheckpointKind};
use crate::version::PgVersion;

const MAGIC: [u8; 8] = *b"walpart\x01";
const CRC_LENGTH: usize = 4;
/// Begins a roaring bitmap without containers of runs, which is what the library writes.
const ROARING_COOKIE: [u8; 4] = 12346u32.to_le_bytes();
/// Ample room for what a reader says about the end of the WAL.
const LONGEST_REASON: usize = 4096;

pub(super) fn write(part: &Part) -> Vec<u8> {
    let mut out = Writer(MAGIC.to_vec());
    out.number(part.identity.version.major());
    out.number(part.identity.system_identifier);
    out.number(part.identity.segment_size);
    out.number(part.from.0);
    out.number(part.to - part.from);
    out.number(part.timelines.0);
    out.number(part.timelines.1);
    out.number(part.newest_timeline);
    out.head(&part.head);
    out.accounting(&part.lead);
    out.optional(part.reach, |out, reach| {
        out.number(reach.first.0);
        out.number(reach.last - reach.first);
        out.number(reach.end - reach.last);
        out.number(reach.prev.0);
    });
    out.accounting(&part.accounting);
    out.accounting(&part.pending);
    out.optional(part.tail.as_ref(), |out, Tail { begun, headers }| {
        out.number(begun.lsn.0);
        out.number(begun.length);
        out.bytes(&begun.header);
        out.number(begun.crc);
        out.accounting(headers);
    });
    match &part.end {
        End::Requested => out.number(0u8),
        End::LastSegment => out.number(1u8),
        End::OfWal(reason) => {
            out.number(2u8);
            out.bytes(reason.as_bytes());
        }
    }
    out.tally(&part.tally);
    let crc = crc32c::crc32c(&out.0);
    out.0.extend(crc.to_le_bytes());
    out.0
}

pub(super) fn read(bytes: &[u8]) -> Result<Part, Error> {
    let wrong = |what| Error::Part { what };
    let (body, crc) = bytes.split_last_chunk::<CRC_LENGTH>().ok_or(wrong("it is too short"))?;
    let (magic, version) = MAGIC.split_at(MAGIC.len() - 1);
    if !body.starts_with(magic) {
        return Err(wrong("it does not begin as one"));
    }
    if body.get(magic.len()..MAGIC.len()) != Some(version) {
        return Err(wrong("its form is that of another version of walproof"));
    }
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(wrong("its checksum is wrong"));
    }
    let mut input = Input(Bytes(body.get(MAGIC.len()..).unwrap_or_default()));
    let part = input.part().ok_or(wrong("its fields contradict each other"))?;
    if input.0.remaining() > 0 {
        return Err(wrong("it goes on after its end"));
    }
    Ok(part)
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: impl Into<u64>) {
        let mut value = value.into();
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.number(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn accounting(&mut self, accounting: &Accounting) {
        for bytes in [
            accounting.record_bytes,
            accounting.padding_bytes,
            accounting.page_header_bytes,
            accounting.segment_header_bytes,
            accounting.switch_bytes,
            accounting.overwritten_bytes,
        ] {
            self.number(bytes);
        }
    }

    fn totals(&mut self, totals: Totals) {
        for count in [totals.records, totals.record_bytes, totals.image_bytes, totals.image_count] {
            self.number(count);
        }
    }

    fn head(&mut self, head: &Head) {
        let Head::Rest { rest, headers, end } = head else {
            return self.number(match head {
                Head::Overwrite => 1u8,
                Head::Unused => 2,
                _ => 0,
            });
        };
        self.number(3u8);
        self.number(rest.remaining);
        self.number(rest.length);
        self.bytes(&rest.first);
        self.number(rest.crc);
        self.accounting(headers);
        let (kind, place) = match end {
            RestEnd::Whole => (0u8, None),
            RestEnd::Cut => (1, None),
            RestEnd::Broken => (2, None),
            RestEnd::GivenUp(page) => (3, Some(page)),
            RestEnd::Switch(at) => (4, Some(at)),
        };
        self.number(kind);
        if let Some(place) = place {
            self.number(place.0);
        }
    }

    fn tally(&mut self, tally: &Tally) {
        let operations: Vec<(u64, Totals)> = tally
            .operations
            .0
            .iter()
            .flatten()
            .zip(0..)
            .filter(|(totals, _)| totals.records > 0)
            .map(|(totals, slot)| (slot, *totals))
            .collect();
        self.number(operations.len() as u64);
        for (slot, totals) in operations {
            self.number(slot);
            self.totals(totals);
        }
        let images = &tally.images;
        for count in [
            images.count,
            images.bytes,
            images.uncompressed_bytes,
            images.hint_count,
            images.hint_bytes,
            images.not_applied_count,
        ] {
            self.number(count);
        }
        for method in images.compressed.0 {
            self.number(method.count);
            self.number(method.bytes);
            self.number(method.uncompressed_bytes);
        }
        let transactions = tally.transactions;
        self.number(transactions.commits);
        self.number(transactions.aborts);
        self.optional(transactions.first_commit_unix_us, Writer::signed);
        self.optional(transactions.last_commit_unix_us, Writer::signed);
        self.number(tally.checkpoints.len() as u64);
        for checkpoint in &tally.checkpoints {
            self.number(checkpoint.lsn.0);
            self.number(checkpoint.redo.0);
            self.number(u8::from(checkpoint.kind == CheckpointKind::Shutdown));
            self.number(checkpoint.timeline);
            self.signed(checkpoint.time_unix_s);
        }
        self.relations(&tally.relations);
        let (minutes, first) = tally.rate.parts();
        self.number(minutes.len() as u64);
        for (minute, written) in minutes {
            self.signed(*minute);
            self.totals(written.totals);
            self.number(written.commits);
        }
        self.optional(first, Writer::signed);
        self.totals(tally.rate.untimed());
    }

    fn relations(&mut self, relations: &Relations) {
        self.totals(relations.none());
        self.number(relations.iter().count() as u64);
        for row in relations.iter() {
            let RelFileLocator { tablespace, database, relation } = row.relation;
            for number in [tablespace, database, relation, u32::from(row.fork)] {
                self.number(number);
            }
            self.totals(row.totals);
            self.optional(row.method, |out, rmgr| out.number(rmgr.0));
            let mut blocks = Vec::with_capacity(row.blocks().serialized_size());
            // Writing to memory cannot fail.
            row.blocks().serialize_into(&mut blocks).unwrap_or_default();
            self.bytes(&blocks);
        }
    }
}

/// Bytes that are not believed; everything is None that cannot be from a part.
struct Input<'a>(Bytes<'a>);

impl<'a> Input<'a> {
    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.0.u8()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // There is one way to write a number.
                return (byte != 0 || shift == 0).then(|| value.try_into().ok()).flatten();
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value: u64 = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn lsn(&mut self) -> Option<Lsn> {
        self.number().map(Lsn)
    }

    /// A location at or after another.
    fn lsn_from(&mut self, before: Lsn) -> Option<Lsn> {
        before.0.checked_add(self.number()?).map(Lsn)
    }

    fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        let length: usize = self.number()?;
        let bytes = self.0 .0.get(..length).filter(|_| length <= most)?;
        self.0.skip(length)?;
        Some(bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number::<u8>()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        Some(if self.flag()? { Some(read(self)?) } else { None })
    }

    /// What fills at most so many bytes.
    fn accounting(&mut self, most: u64) -> Option<Accounting> {
        let accounting = Accounting {
            record_bytes: self.number()?,
            padding_bytes: self.number()?,
            page_header_bytes: self.number()?,
            segment_header_bytes: self.number()?,
            switch_bytes: self.number()?,
            overwritten_bytes: self.number()?,
        };
        let kinds = [
            accounting.record_bytes,
            accounting.padding_bytes,
            accounting.page_header_bytes,
            accounting.segment_header_bytes,
            accounting.switch_bytes,
            accounting.overwritten_bytes,
        ];
        let sum = kinds.into_iter().try_fold(0u64, u64::checked_add)?;
        (sum <= most).then_some(accounting)
    }

    fn totals(&mut self) -> Option<Totals> {
        Some(Totals {
            records: self.number()?,
            record_bytes: self.number()?,
            image_bytes: self.number()?,
            image_count: self.number()?,
        })
    }

    fn part(&mut self) -> Option<Part> {
        let major: u32 = self.number()?;
        let identity = WalIdentity {
            version: PgVersion::ALL.into_iter().find(|version| version.major() == major)?,
            system_identifier: self.number()?,
            segment_size: self.number().filter(|size| is_segment_size(*size))?,
        };
        let from = self.lsn()?;
        let to = self.lsn_from(from)?;
        let room = room(from, to)?;
        let timelines: (u32, u32) = (self.number()?, self.number()?);
        let newest_timeline = self.number()?;
        let head = self.head(from, to)?;
        let lead = self.accounting(room)?;
        let reach = self.optional(|input| {
            let first = input.lsn()?;
            let last = input.lsn_from(first)?;
            Some(Reach { first, last, end: input.lsn_from(last)?, prev: input.lsn()? })
        })?;
        // What a switch left unused may go on after the part.
        let most = room.checked_add(u64::from(identity.segment_size))?;
        let accounting = self.accounting(most)?;
        let pending = self.accounting(room)?;
        let tail = self.optional(|input| input.tail(from, to))?;
        let end = match self.number::<u8>()? {
            0 => End::Requested,
            1 => End::LastSegment,
            2 => End::OfWal(std::str::from_utf8(self.bytes(LONGEST_REASON)?).ok()?.to_owned()),
            _ => return None,
        };
        let tally = self.tally(accounting.record_bytes)?;
        let part = Part {
            identity,
            from,
            to,
            timelines,
            newest_timeline,
            head,
            lead,
            reach,
            accounting,
            tally,
            pending,
            tail,
            end,
        };
        is_consistent(&part).then_some(part)
    }

    fn head(&mut self, from: Lsn, to: Lsn) -> Option<Head> {
        match self.number::<u8>()? {
            0 => return Some(Head::Record),
            1 => return Some(Head::Overwrite),
            2 => return Some(Head::Unused),
            3 => {}
            _ => return None,
        }
        let (remaining, length) = (self.number()?, self.number::<u32>()?);
        let first = self.kept(length)?;
        let rest = Rest { remaining, length, first, crc: self.number()? };
        let headers = self.accounting(room(from, to)?)?;
        let end = match self.number::<u8>()? {
            0 => RestEnd::Whole,
            1 => RestEnd::Cut,
            2 => RestEnd::Broken,
            3 => RestEnd::GivenUp(self.lsn()?),
            4 => RestEnd::Switch(self.lsn()?),
            _ => return None,
        };
        let is_sound = match end {
            RestEnd::Whole => rest.length == remaining,
            RestEnd::Switch(at) => rest.length == remaining && remaining <= 16 && (from..=to).contains(&at),
            RestEnd::Cut => rest.length < remaining,
            RestEnd::Broken => rest.length == 0,
            RestEnd::GivenUp(page) => rest.length == 0 && (from..=to).contains(&page),
        };
        (remaining > 0 && is_sound).then_some(Head::Rest { rest, headers, end })
    }

    /// The first bytes of so many.
    fn kept(&mut self, length: u32) -> Option<Vec<u8>> {
        let bytes = self.bytes(OPENING)?;
        (bytes.len() == OPENING.min(length as usize)).then(|| bytes.to_vec())
    }

    fn tail(&mut self, from: Lsn, to: Lsn) -> Option<Tail> {
        let lsn = self.lsn()?;
        let length: u32 = self.number()?;
        let header = self.kept(length)?;
        let total_length = u32::from_le_bytes(*header.first_chunk::<4>()?);
        let crc = self.number()?;
        let headers = self.accounting(room(from, to)?)?;
        let is_sound = (from..to).contains(&lsn) && length < total_length && u64::from(length) <= to - lsn;
        is_sound.then_some(Tail { begun: Begun { lsn, total_length, length, header, crc }, headers })
    }

    /// Counts of records that have so many bytes.
    fn tally(&mut self, record_bytes: u64) -> Option<Tally> {
        let mut operations = OperationTotals::default();
        let (mut sum, mut least) = (Totals::default(), 0);
        for _ in 0..self.number::<u64>()? {
            let slot: usize = self.number().filter(|slot| (least..256 * 16).contains(slot))?;
            let totals = self.totals().filter(|totals| totals.records > 0)?;
            *operations.slots(slot / 16)?.get_mut(slot % 16)? = totals;
            least = slot + 1;
            sum = checked_sum(sum, totals)?;
        }
        if sum.record_bytes.checked_add(sum.image_bytes)? != record_bytes {
            return None;
        }
        let images = self.images(sum)?;
        let transactions = TransactionTotals {
            commits: self.number()?,
            aborts: self.number()?,
            first_commit_unix_us: self.optional(Input::signed)?,
            last_commit_unix_us: self.optional(Input::signed)?,
        };
        let ends = transactions.commits.checked_add(transactions.aborts)?;
        let mut checkpoints = Vec::new();
        for _ in 0..self.number::<u64>().filter(|_| ends <= sum.records)? {
            let (lsn, redo) = (self.lsn()?, self.lsn()?);
            let kind = if self.flag()? { CheckpointKind::Shutdown } else { CheckpointKind::Online };
            let (timeline, time_unix_s) = (self.number()?, self.signed()?);
            checkpoints.push(Checkpoint { lsn, redo, kind, timeline, time_unix_s });
        }
        let relations = self.relations(sum)?;
        let rate = self.rate(sum, transactions.commits)?;
        Some(Tally { operations, images, transactions, checkpoints, relations, rate })
    }

    fn images(&mut self, sum: Totals) -> Option<ImageTotals> {
        let mut images = ImageTotals {
            count: self.number()?,
            bytes: self.number()?,
            uncompressed_bytes: self.number()?,
            hint_count: self.number()?,
            hint_bytes: self.number()?,
            not_applied_count: self.number()?,
            compressed: ByMethod::default(),
        };
        let mut compressed = MethodTotals::default();
        for method in &mut images.compressed.0 {
            *method = MethodTotals {
                count: self.number()?,
                bytes: self.number()?,
                uncompressed_bytes: self.number()?,
            };
            compressed.count = compressed.count.checked_add(method.count)?;
            compressed.bytes = compressed.bytes.checked_add(method.bytes)?;
            compressed.uncompressed_bytes =
                compressed.uncompressed_bytes.checked_add(method.uncompressed_bytes)?;
        }
        let is_sound = (images.count, images.bytes) == (sum.image_count, sum.image_bytes)
            && images.uncompressed_bytes <= images.count.checked_mul(1 << 16)?
            && images.hint_count.max(images.not_applied_count).max(compressed.count) <= images.count
            && images.hint_bytes.max(compressed.bytes) <= images.bytes
            && compressed.uncompressed_bytes <= images.uncompressed_bytes;
        is_sound.then_some(images)
    }

    fn relations(&mut self, sum: Totals) -> Option<Relations> {
        let none = self.totals()?;
        let mut rebuilt = none;
        let mut rows = Vec::new();
        for _ in 0..self.number::<u64>()? {
            let relation = RelFileLocator {
                tablespace: self.number()?,
                database: self.number()?,
                relation: self.number()?,
            };
            let fork = self.number().filter(|fork: &u8| *fork < 16)?;
            let totals = self.totals()?;
            let method = self.optional(|input| input.number().map(RmgrId))?;
            let blocks = blocks(self.bytes(usize::MAX)?)?;
            rows.push(RelationTotals::of((relation, fork), totals, method, blocks));
            rebuilt = checked_sum(rebuilt, totals)?;
        }
        (rebuilt == sum).then(|| Relations::of(rows, none)).flatten()
    }

    fn rate(&mut self, sum: Totals, commits: u64) -> Option<Rate> {
        let mut minutes = BTreeMap::new();
        let (mut timed, mut own_commits) = (Totals::default(), 0u64);
        for _ in 0..self.number::<u64>()? {
            let minute = self.signed()?;
            // Such that it can be told in seconds.
            minute.checked_mul(60)?;
            let written = Minute { totals: self.totals()?, commits: self.number()? };
            let is_later = minutes.last_key_value().is_none_or(|(last, _)| *last < minute);
            timed = checked_sum(timed, written.totals).filter(|_| is_later)?;
            own_commits = own_commits.checked_add(written.commits)?;
            minutes.insert(minute, written);
        }
        let first = self.optional(Input::signed)?;
        let untimed = self.totals()?;
        let is_sound = checked_sum(timed, untimed)? == sum && own_commits == commits;
        is_sound.then(|| Rate::of(minutes, first, untimed)).flatten()
    }
}

/// Bytes that a part between these locations can account for: the header at its end belongs to it as a whole.
fn room(from: Lsn, to: Lsn) -> Option<u64> {
    (to - from).checked_add(u64::from(LONG_HEADER_SIZE))
}

/// A set of blocks, not empty, in ascending order: the library checks each container, and not their order.
fn blocks(bytes: &[u8]) -> Option<RoaringBitmap> {
    let mut rest = bytes.strip_prefix(&ROARING_COOKIE).map(|_| bytes)?;
    let blocks = RoaringBitmap::deserialize_from(&mut rest).ok().filter(|_| rest.is_empty())?;
    let mut last = None;
    for block in &blocks {
        if last.is_some_and(|last| last >= block) {
            return None;
        }
        last = Some(block);
    }
    last.map(|_| blocks)
}

fn checked_sum(first: Totals, other: Totals) -> Option<Totals> {
    Some(Totals {
        records: first.records.checked_add(other.records)?,
        record_bytes: first.record_bytes.checked_add(other.record_bytes)?,
        image_bytes: first.image_bytes.checked_add(other.image_bytes)?,
        image_count: first.image_count.checked_add(other.image_count)?,
    })
}

/// Whether places and counts agree.
fn is_consistent(part: &Part) -> bool {
    let (from, to) = (part.from, part.to);
    let is_inside = matches!(&part.head, Head::Rest { end: RestEnd::Cut, .. });
    let records: u64 = part.tally.by_rmgr().map(|(_, totals)| totals.records).sum();
    let is_reach_sound = match part.reach {
        Some(reach) => {
            let segment_end = to.align_up(u64::from(part.identity.segment_size));
            records > 0
                && (from..to).contains(&reach.first)
                && reach.last < to
                && reach.last < reach.end
                && reach.end <= segment_end
                && part.accounting.total() == reach.end - reach.first
        }
        None => records == 0 && part.accounting.total() == 0 && part.lead.total() == 0,
    };
    let is_aligned = [from, to].into_iter().all(|lsn| lsn.offset_in(ALIGNMENT) == 0);
    let is_tail_sound = part.tail.as_ref().is_none_or(|tail| {
        matches!(part.end, End::Requested | End::LastSegment)
            && part.reach.is_none_or(|reach| reach.end <= tail.begun.lsn)
    });
    let has_nothing = part.reach.is_none() && part.tail.is_none() && part.pending.total() == 0;
    is_aligned
        && part.timelines.0 <= part.timelines.1
        && is_reach_sound
        && is_tail_sound
        && (!is_inside || has_nothing)
}
