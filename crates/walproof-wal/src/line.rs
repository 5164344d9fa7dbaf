//! A record as a line of text: as pg_waldump prints it, and as JSON.
//!
//! What pg_waldump says about the inside of an operation (offsets, flags, snapshots) is left out, except the
//! time of a commit and the redo point of a checkpoint: this crate does not take operations apart.

use std::fmt::{self, Write};

use time::OffsetDateTime;

use crate::block::BlockRef;
use crate::image::Image;
use crate::record::Record;
use crate::transaction::{Checkpoint, TransactionEnd};

/// How much to print of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One line, block references at its end: `pg_waldump`.
    Line,
    /// Block references with details of their images on lines of their own: `pg_waldump --bkp-details`.
    Blocks,
    /// One JSON object on a line.
    Json,
}

impl Record<'_> {
    /// Appends the record to `out`, with a line feed at the end.
    ///
    /// # Errors
    /// Those of `out`; a `String` has none.
    pub fn write_to(&self, out: &mut impl Write, style: Style) -> fmt::Result {
        match style {
            Style::Json => self.write_json(out),
            Style::Line | Style::Blocks => {
                self.write_head(out)?;
                if style == Style::Line {
                    self.blocks.iter().try_for_each(|block| write_short(out, block))?;
                    return out.write_char('\n');
                }
                out.write_char('\n')?;
                self.blocks.iter().try_for_each(|block| write_details(out, block))
            }
        }
    }

    /// The format of `XLogDumpDisplayRecord` (src/bin/pg_waldump/pg_waldump.c).
    fn write_head(&self, out: &mut impl Write) -> fmt::Result {
        let header = self.header;
        let total = header.total_length;
        write!(
            out,
            "rmgr: {:<11} len (rec/tot): {:>6}/{:>6}, tx: {:>10}, lsn: {:X}/{:08X}, prev {:X}/{:08X}, desc: ",
            header.rmgr.to_string(),
            total.saturating_sub(self.image_bytes()),
            total,
            header.xid,
            self.lsn.0 >> 32,
            self.lsn.0 & 0xFFFF_FFFF,
            header.prev.0 >> 32,
            header.prev.0 & 0xFFFF_FFFF,
        )?;
        self.operation().write_own_name(out)?;
        if let Some(end) = TransactionEnd::from_record(self) {
            out.write_char(' ')?;
            write_time(out, end.time_unix_us)?;
        }
        if let Some(checkpoint) = Checkpoint::from_record(self) {
            let redo = checkpoint.redo.0;
            write!(out, " redo {:X}/{:08X}", redo >> 32, redo & 0xFFFF_FFFF)?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut impl Write) -> fmt::Result {
        let header = self.header;
        write!(
            out,
            r#"{{"lsn":"{}","prev":"{}","end":"{}","rmgr":"{}","operation":""#,
            self.lsn, header.prev, self.end, header.rmgr
        )?;
        self.operation().write_own_name(out)?;
        write!(
            out,
            r#"","xid":{},"total_length":{},"image_bytes":{},"main_data_length":{}"#,
            header.xid,
            header.total_length,
            self.image_bytes(),
            self.main_data.len()
        )?;
        if let Some(origin) = self.origin {
            write!(out, r#","origin":{origin}"#)?;
        }
        if let Some(xid) = self.toplevel_xid {
            write!(out, r#","toplevel_xid":{xid}"#)?;
        }
        if let Some(end) = TransactionEnd::from_record(self) {
            write!(out, r#","time_unix_us":{}"#, end.time_unix_us)?;
        }
        if let Some(checkpoint) = Checkpoint::from_record(self) {
            write!(out, r#","redo":"{}","time_unix_s":{}"#, checkpoint.redo, checkpoint.time_unix_s)?;
        }
        out.write_str(r#","blocks":["#)?;
        for (number, block) in self.blocks.iter().enumerate() {
            if number > 0 {
                out.write_char(',')?;
            }
            write_json_block(out, block)?;
        }
        out.write_str("]}\n")
    }
}

/// `2026-11-21 03:12:06.953030 UTC`; the number itself when no calendar holds it.
fn write_time(out: &mut impl Write, unix_us: i64) -> fmt::Result {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_us) * 1000) else {
        return write!(out, "{unix_us} us since 1970");
    };
    let (date, (hour, minute, second, micro)) = (at.date(), at.time().as_hms_micro());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micro:06} UTC")
}

fn fork_name(fork: u8) -> &'static str {
    match fork {
        0 => "main",
        1 => "fsm",
        2 => "vm",
        3 => "init",
        _ => "unknown",
    }
}

fn write_short(out: &mut impl Write, block: &BlockRef) -> fmt::Result {
    let at = block.relation;
    write!(out, ", blkref #{}: rel {}/{}/{}", block.id, at.tablespace, at.database, at.relation)?;
    if block.fork != 0 {
        write!(out, " fork {}", fork_name(block.fork))?;
    }
    write!(out, " blk {}", block.block)?;
    match block.image {
        Some(image) if image.apply => out.write_str(" FPW"),
        Some(_) => out.write_str(" FPW for WAL verification"),
        None => Ok(()),
    }
}

fn write_details(out: &mut impl Write, block: &BlockRef) -> fmt::Result {
    let at = block.relation;
    write!(
        out,
        "\tblkref #{}: rel {}/{}/{} fork {} blk {}",
        block.id,
        at.tablespace,
        at.database,
        at.relation,
        fork_name(block.fork),
        block.block
    )?;
    if let Some(image) = block.image {
        let purpose = if image.apply { "" } else { " for WAL verification" };
        let (offset, length) = (image.hole_offset, image.hole_length);
        write!(out, " (FPW{purpose}); hole: offset: {offset}, length: {length}")?;
        if let Some(method) = image.compression {
            let saved = image.uncompressed_length().saturating_sub(image.length);
            write!(out, ", compression saved: {saved}, method: {method}")?;
        }
    }
    out.write_char('\n')
}

fn write_json_block(out: &mut impl Write, block: &BlockRef) -> fmt::Result {
    let at = block.relation;
    write!(
        out,
        r#"{{"id":{},"tablespace":{},"database":{},"relation":{},"fork":"{}","block":{},"data_length":{},"will_init":{}"#,
        block.id,
        at.tablespace,
        at.database,
        at.relation,
        fork_name(block.fork),
        block.block,
        block.data_length,
        block.will_init
    )?;
    if let Some(Image { length, hole_offset, hole_length, compression, apply }) = block.image {
        write!(
            out,
            r#","image":{{"length":{length},"hole_offset":{hole_offset},"hole_length":{hole_length},"apply":{apply},"compression":"#
        )?;
        match compression {
            Some(method) => write!(out, r#""{method}"}}"#)?,
            None => out.write_str("null}")?,
        }
    }
    out.write_char('}')
}
