//! Puts two parts together: checks that one follows the other, joins the record over the edge, and adds the
//! sums.

use super::{End, Head, Part, Reach, RestEnd, Tail};
use crate::accounting::Accounting;
use crate::block::{decode_opening, BlockRefs, Fragments};
use crate::edge::{join_keeping, Begun, Joined, Rest, OPENING};
use crate::error::{Error, Invalid};
use crate::lsn::{Lsn, SegmentName};
use crate::reader::is_switch;
use crate::record::{Record, RecordHeader, ALIGNMENT, HEADER_SIZE};

/// Appends the part that follows to the other. Every grouping of several parts gives the same.
///
/// # Errors
/// [`Error::NotFollowing`] when `next` is not the part that follows; [`Error::Invalid`] when the record over the edge
/// between them is not in order.
pub fn join(part: Part, next: Part) -> Result<Part, Error> {
    check_follows(&part, &next)?;
    let mut whole = part;
    let mut end = next.end;
    let has_records = next.reach.is_some();
    match (whole.tail.take(), next.head) {
        (Some(tail), Head::Rest { rest, headers, end: rest_end }) => {
            let joint = Joint { rest, headers, end: rest_end, has_records, to: next.to };
            end = over_the_edge(&mut whole, tail, &joint, end)?;
        }
        // The page at the edge says so, whatever the record's length.
        (Some(tail), Head::Overwrite) => whole.pending.overwritten_bytes += next.from - tail.begun.lsn,
        (Some(tail), _) => return Err(whole.invalid(Invalid::NoContrecord { lsn: tail.begun.lsn })),
        (None, head) if whole.is_inside() => go_on_inside(&mut whole, head, next.from)?,
        (None, Head::Rest { .. }) => {
            return Err(whole.invalid(Invalid::ContrecordRequested { lsn: next.from }));
        }
        (None, _) => {}
    }
    whole.tally.append(next.tally);
    whole.pending += next.lead;
    if let Some(more) = next.reach {
        if let Some(lsn) = whole.last().filter(|last| *last != more.prev) {
            let (expected, got) = (format!("a link to the record at {lsn}"), format!("one to {}", more.prev));
            let what = "its first record follows another";
            return Err(Error::NotFollowing { lsn: next.from, what, expected, got });
        }
        whole.add(more, next.accounting);
    }
    whole.pending += next.pending;
    whole.tail = whole.tail.or(next.tail);
    whole.to = next.to;
    whole.timelines.1 = next.timelines.1;
    whole.newest_timeline = whole.newest_timeline.max(next.newest_timeline);
    whole.end = end;
    if let Some(reach) = whole.reach {
        let (expected, got) = (reach.end - reach.first, whole.accounting.total());
        if expected != got {
            let (expected, got) = (format!("{expected} bytes up to {}", reach.end), got.to_string());
            return Err(Error::NotFollowing { lsn: next.from, what: "bytes are missing", expected, got });
        }
    }
    Ok(whole)
}

/// Checks that the part is of the same WAL, and begins where the other ends.
fn check_follows(part: &Part, next: &Part) -> Result<(), Error> {
    let lsn = next.from;
    let fails = |what: &'static str, expected: String, got: String| {
        Err(Error::NotFollowing { lsn, what, expected, got })
    };
    let (identity, other) = (part.identity, next.identity);
    if identity.system_identifier != other.system_identifier {
        let (expected, got) = (identity.system_identifier, other.system_identifier);
        return fails("it is of another system", format!("system identifier {expected}"), got.to_string());
    }
    if identity.version != other.version {
        let expected = format!("PostgreSQL {}", identity.version);
        return fails("it is of another version", expected, other.version.to_string());
    }
    if identity.segment_size != other.segment_size {
        let expected = format!("{} bytes", identity.segment_size);
        return fails("its segments have another size", expected, other.segment_size.to_string());
    }
    if let End::OfWal(reason) = &part.end {
        let expected = format!("nothing after {}", part.to);
        return fails("the WAL ends before it", expected, format!("a part, though {reason}"));
    }
    if next.from != part.to {
        let expected = format!("a part that begins at {}", part.to);
        return fails("the part before it ends elsewhere", expected, format!("one at {}", next.from));
    }
    if next.timelines.0 < part.timelines.1 {
        let expected = format!("timeline {} or a later one", part.timelines.1);
        return fails("it is on an earlier timeline", expected, next.timelines.0.to_string());
    }
    match (part.unused_to(), &next.head) {
        (Some(_), Head::Unused) | (None, Head::Record | Head::Overwrite | Head::Rest { .. }) => Ok(()),
        (Some(end), _) => fails(
            "it begins in the rest of a segment that a switch left unused",
            format!("nothing up to {end}"),
            "records".to_owned(),
        ),
        (None, Head::Unused) => fails(
            "it begins in an unused rest of a segment, and no switch comes before it",
            "records".to_owned(),
            "none".to_owned(),
        ),
    }
}

/// How the next part goes on with the record in hand.
struct Joint {
    rest: Rest,
    headers: Accounting,
    end: RestEnd,
    /// Whether whole records follow in that part, and where it ends.
    has_records: bool,
    to: Lsn,
}

/// Puts the record over the edge together. Why the next part ends, which the record may show in another light.
fn over_the_edge(whole: &mut Part, tail: Tail, joint: &Joint, end: End) -> Result<End, Error> {
    let lsn = tail.begun.lsn;
    match joint.end {
        RestEnd::GivenUp(page) => {
            let (got, expected) = (joint.rest.remaining, tail.begun.missing());
            if got != expected {
                return Err(whole.invalid(Invalid::ContrecordLength { lsn, got, expected }));
            }
            whole.pending.overwritten_bytes += page - lsn;
            return Ok(end);
        }
        RestEnd::Broken => {
            let segment = |at| SegmentName::holding(at, 0, whole.identity.segment_size);
            return match end {
                // As for a reader: where a later segment shows that the WAL goes on, it is no end.
                End::OfWal(message) if segment(joint.to) > segment(lsn) => Err(Error::Told { message }),
                // The WAL ends within the record: nothing that stands after the last whole one counts.
                End::OfWal(_) if !joint.has_records => {
                    whole.pending = Accounting::default();
                    Ok(end)
                }
                _ => Err(whole.invalid(Invalid::NoContrecord { lsn })),
            };
        }
        RestEnd::Whole | RestEnd::Cut | RestEnd::Switch(_) => {}
    }
    let headers = sum(tail.headers, joint.headers);
    let version = whole.identity.version;
    let joined = join_keeping(&tail.begun, &joint.rest, whole.last(), version, OPENING)
        .map_err(|what| whole.invalid(what))?;
    let begun = match joined {
        Joined::Begun(begun) => {
            whole.tail = Some(Tail { begun, headers });
            return Ok(end);
        }
        Joined::Whole(begun) => begun,
    };
    let (is_switch, leaves_rest) = whole.add_record(&begun, headers)?;
    match joint.end {
        RestEnd::Switch(at) if !is_switch => not_a_switch(whole, at, end, joint.has_records),
        RestEnd::Whole if leaves_rest && joint.has_records => Err(Error::NotFollowing {
            lsn: whole.to,
            what: "it has records in the rest of a segment that a switch left unused",
            expected: "nothing after the switch".to_owned(),
            got: format!("more than the rest of the switch at {lsn}"),
        }),
        _ => Ok(end),
    }
}

/// What looked like a switch, with nothing after it, was the end of another record: the WAL ends after it, as long as
/// the part shows no more of it.
fn not_a_switch(whole: &Part, at: Lsn, end: End, has_records: bool) -> Result<End, Error> {
    let what = Invalid::RecordLength { lsn: at, expected: HEADER_SIZE as u32, got: 0 };
    match end {
        End::LastSegment | End::OfWal(_) if !has_records => Ok(End::OfWal(what.to_string())),
        _ => Err(whole.invalid(what)),
    }
}

/// Goes on with a part that lies within one record, and knows nothing of its beginning.
fn go_on_inside(whole: &mut Part, next: Head, from: Lsn) -> Result<(), Error> {
    let Head::Rest { rest, headers, end } = &mut whole.head else { return Ok(()) };
    let wrong = |expected: u32, got: String| Error::NotFollowing {
        lsn: from,
        what: "it does not go on with the record of the part before",
        expected: format!("{expected} bytes more"),
        got,
    };
    let lost = Rest { remaining: rest.remaining, ..Rest::default() };
    (*rest, *headers, *end) = match next {
        Head::Overwrite => (lost, Accounting::default(), RestEnd::GivenUp(from)),
        Head::Rest { rest: more, end, .. } if end.is_lost() && more.remaining == rest.missing() => {
            (lost, Accounting::default(), end)
        }
        Head::Rest { rest: more, headers: more_headers, end } => {
            let both = rest.followed_by(&more, OPENING);
            let both = both.ok_or_else(|| wrong(rest.missing(), more.remaining.to_string()))?;
            (both, sum(*headers, more_headers), end)
        }
        Head::Record | Head::Unused => return Err(wrong(rest.missing(), "none".to_owned())),
    };
    Ok(())
}

impl Part {
    /// Goes on with records that begin where `pending` ends.
    fn add(&mut self, more: Reach, accounting: Accounting) {
        let between = std::mem::take(&mut self.pending);
        match &mut self.reach {
            Some(reach) => {
                (reach.last, reach.end) = (more.last, more.end);
                self.accounting += between;
            }
            None => {
                self.reach = Some(more);
                self.lead = between;
            }
        }
        self.accounting += accounting;
    }

    /// Counts a record of which the first bytes are at hand, and whose checksum is right. Whether it is a switch, and
    /// whether it leaves a rest of its segment unused.
    fn add_record(&mut self, begun: &Begun, headers: Accounting) -> Result<(bool, bool), Error> {
        let (lsn, version) = (begun.lsn, self.identity.version);
        let too_short =
            || Invalid::RecordLength { lsn, expected: HEADER_SIZE as u32, got: begun.total_length };
        let header = RecordHeader::parse(&begun.header).ok_or_else(|| self.invalid(too_short()))?;
        let (mut blocks, mut fragments) = (BlockRefs::new(), Fragments::default());
        let length = begun.total_length as usize;
        decode_opening(&begun.header, length, lsn, version, &mut blocks, &mut fragments)
            .map_err(|what| self.invalid(what))?;
        let data = begun.header.get(fragments.main_data.start..).unwrap_or_default();
        let unpadded = lsn.advance(u64::from(begun.total_length) + headers.total());
        let mut end = unpadded.align_up(ALIGNMENT);
        let mut accounting = headers;
        accounting.record_bytes += u64::from(begun.total_length);
        accounting.padding_bytes += end - unpadded;
        let (is_switch, record_end) = (is_switch(header), end);
        if is_switch {
            end = end.align_up(u64::from(self.identity.segment_size));
            accounting.switch_bytes += end - record_end;
        }
        self.tally.add(&Record {
            lsn,
            end,
            header,
            version,
            origin: fragments.origin,
            toplevel_xid: fragments.toplevel_xid,
            blocks: blocks.as_slice(),
            main_data: data.get(..fragments.main_data.len().min(data.len())).unwrap_or_default(),
            bytes: &begun.header,
        });
        self.add(Reach { first: lsn, last: lsn, end, prev: header.prev }, accounting);
        Ok((is_switch, end > record_end))
    }
}

fn sum(mut total: Accounting, other: Accounting) -> Accounting {
    total += other;
    total
}
