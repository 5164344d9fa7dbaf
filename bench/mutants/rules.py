"""Rules of the disk model, each with a change of the source that switches it off."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule, and the change in a file of crates/walproof-disk/src that switches it off."""

    name: str
    file: str
    old: str
    new: str


RULES = (
    # What is kept, and what becomes durable by a flush.
    Rule(
        "a flush covers only what happened before it began",
        "undo.rs",
        "read(record).filter(|change| change.sequence <= sequence)",
        "read(record).filter(|_| sequence > 0)",
    ),
    Rule(
        "a synchronous write covers its own blocks alone",
        "undo.rs",
        "if (first..=last).contains(&block) && record",
        "if (first..=last.max(u64::MAX)).contains(&(block + first)) && record",
    ),
    Rule(
        "a synchronous write that changes the size covers the file",
        "undo.rs",
        ".any(|(_, change)| change.kind != ChangeKind::Data)",
        ".any(|(_, change)| change.sequence > u64::MAX - 1)",
    ),
    Rule(
        "the kernel writes old data back",
        "undo.rs",
        "writeback_ns != 0 && now_ns",
        "writeback_ns == u64::MAX && now_ns",
    ),
    Rule("the kernel commits names after a sixth of that", "undo.rs", "writeback_ns / 6", "writeback_ns"),
    Rule("a full undo log makes the run void", "undo.rs", "self.header.declare_void(Void::UndoFull);", ""),
    # Names.
    Rule(
        "a flush of a new file commits the journal",
        "journal.rs",
        "<= sequence && op_id(op) == id)",
        "<= sequence && op_id(op) == id && sequence == 0)",
    ),
    Rule(
        "old names are committed",
        "journal.rs",
        ".take_while(old).last()",
        ".take_while(old).last().filter(|_| age_ns == u64::MAX)",
    ),
    Rule(
        "strict: a flush of the file alone makes no name durable",
        "journal.rs",
        "    if header.strict.load(Relaxed) == 0 {\n        return op",
        "    if header.strict.load(Relaxed) < 2 {\n        return op",
    ),
    Rule(
        "strict: both folders of a rename have to be flushed",
        "journal.rs",
        "    op.flushed.load(Relaxed) == 3\n}\n\n/// The file that",
        "    op.flushed.load(Relaxed) != 0\n}\n\n/// The file that",
    ),
    Rule(
        "strict: a flush of a folder covers that folder alone",
        "journal.rs",
        "if parent(field) == folder { bit }",
        "if parent(field) == folder || bit > 0 { bit }",
    ),
    Rule(
        "a full list of names makes the run void",
        "journal.rs",
        "self.header.declare_void(Void::NamesFull);",
        "",
    ),
    Rule(
        "a path that is too long makes the run void",
        "journal.rs",
        "self.header.declare_void(Void::PathTooLong);",
        "",
    ),
    Rule(
        "what is built on a lost name is lost",
        "names.rs",
        "if lost_before {",
        "if lost_before && place > ops.len() {",
    ),
    Rule(
        "what a durable name is built on survived",
        "names.rs",
        ".any(|(other, must)| *must && touch(op, other))",
        ".any(|(other, must)| *must && touch(op, other) && place > ops.len())",
    ),
    Rule(
        "a file that a lost rename replaced is back",
        "names.rs",
        "tree.insert(op.b.clone(), Node::File(victim));",
        "let _ = victim;",
    ),
    Rule(
        "a folder moves with what is in it",
        "names.rs",
        "if tree.get(path) == Some(&Node::Folder) {",
        "if tree.get(path) == Some(&Node::Folder) && path.1.is_empty() {",
    ),
    Rule(
        "of the names that are not durable a prefix survives",
        "image.rs",
        "ops.iter().map(|op| op.sequence <= moments.journal)",
        "ops.iter().map(|op| op.sequence <= moments.journal || op.sequence % 2 == 0)",
    ),
    Rule(
        "a truncation is a change in the journal",
        "image.rs",
        "op.sequence).chain(cuts)",
        "op.sequence).chain(cuts.take(0))",
    ),
    # Contents.
    Rule(
        "nothing survives where nothing is to",
        "content.rs",
        "Survival::Nothing => numbers.first().copied(),",
        "Survival::Nothing => newest,",
    ),
    Rule(
        "everything survives where everything is to",
        "content.rs",
        "Survival::Everything => newest,",
        "Survival::Everything => numbers.first().copied(),",
    ),
    Rule(
        "a unit may hold any version in between",
        "content.rs",
        "older > 1 && rng.chance(0.5)",
        "older > 1 && rng.chance(0.0)",
    ),
    Rule(
        "by age: what is older than the moment survives",
        "content.rs",
        ".find(|number| *number > moment).or(newest)",
        ".find(|number| *number > moment || moment > 0).or(newest)",
    ),
    Rule(
        "what a durable truncation cut off does not come back",
        "content.rs",
        "numbers.retain(|number| number > sequence);",
        "numbers.retain(|number| number > sequence || *number > 0);",
    ),
    Rule(
        "what a lost truncation cut off is there",
        "content.rs",
        "live_possible = false;",
        "live_possible = true;",
    ),
    Rule(
        "a unit older than a truncation in it ends in zeros",
        "content.rs",
        "let cut = cut.map(|(_, left)| *left).min().unwrap_or(end);",
        "let cut = cut.map(|(_, left)| *left).min().unwrap_or(end).max(end);",
    ),
    Rule("a truncation that survives sets the size", "content.rs", "base = change.b;\n", ""),
    Rule(
        "after a lost truncation the size did not grow",
        "content.rs",
        "_ if lost.is_empty() => top",
        "_ if lost.len() < 1000 => top",
    ),
    Rule("growth that did not happen is none", "content.rs", "top = top.min(live_size);", ""),
    Rule(
        "a file that grew may have any size in between",
        "content.rs",
        "rng.below(steps + 1)) * SIZE_STEP",
        "rng.below(1)) * SIZE_STEP",
    ),
    Rule(
        "what grew and was not written is zeros",
        "content.rs",
        "push(block, Source::Zeros);",
        "let _ = block;",
    ),
    Rule(
        "what was cut off and kept aside comes back",
        "content.rs",
        "push(block, Source::Side { sequence: change.sequence, start: change.a, valid: change.b });",
        "let _ = block;",
    ),
    Rule(
        "a block is kept as long as it was",
        "content.rs",
        "Source::Saved { record: *record, valid: change.b }",
        "Source::Saved { record: *record, valid: change.b / 2 }",
    ),
    Rule("units of 8 kB are not torn", "content.rs", "Self::Page8192 => 8192,", "Self::Page8192 => 512,"),
    Rule("units of 512 bytes are", "content.rs", "Self::Sector512 => 512,", "Self::Sector512 => 4096,"),
    # Images.
    Rule(
        "there is no image of a void run",
        "image.rs",
        "if let Some(why) = snapshot.void().first() {",
        "if let Some(why) = snapshot.void().get(64) {",
    ),
    Rule(
        "what a failed flush should have written is lost",
        "image.rs",
        "if *failed { Survival::Nothing }",
        "if *failed && wish.seed == u64::MAX { Survival::Nothing }",
    ),
    Rule(
        "data that the kernel wrote back is on the disk",
        "image.rs",
        "!list.is_empty() && !written_back",
        "!list.is_empty() && (written_back || !written_back)",
    ),
    Rule(
        "names that the kernel committed are on the disk",
        "image.rs",
        ".max().unwrap_or(0);",
        ".max().map_or(0, |_| 0);",
    ),
    Rule(
        "a file without a name is found in the graveyard",
        "image.rs",
        "if let Some(victim) = op.victim {\n            homes",
        "if let Some(victim) = op.victim.filter(|_| op.sequence == 0) {\n            homes",
    ),
    # Moments, files, time.
    Rule(
        "the cut is at the n-th event",
        "state.rs",
        "self.trigger_left.fetch_sub(1, Ordering::AcqRel) != 1",
        "self.trigger_left.fetch_sub(1, Ordering::AcqRel) == 0",
    ),
    Rule(
        "a flush can be made to fail",
        "state.rs",
        "self.trigger_action.load(Ordering::Acquire) == 0 {",
        "self.trigger_action.load(Ordering::Acquire) < 2 {",
    ),
    Rule(
        "the first cut is the cut",
        "state.rs",
        "        if first {\n            self.cut_monotonic_ns",
        "        if first || monotonic_ns > 0 {\n            self.cut_monotonic_ns",
    ),
    Rule("a flush can be swallowed", "state.rs", "self.swallowed.begins(below)", 'below == b"?"'),
    Rule(
        "a neighbour of a folder is not in it",
        "state.rs",
        "[b'/', rest @ ..] => Some(rest),\n            _ => None,",
        "[b'/', rest @ ..] => Some(rest),\n            _ => Some(rest),",
    ),
    Rule(
        "a full table of files makes the run void",
        "files.rs",
        "self.header.declare_void(Void::FilesFull);",
        "",
    ),
    Rule(
        "a place that is used again is another file's",
        "files.rs",
        "slot.generation.fetch_add(1, Release);\n                slot",
        "slot",
    ),
    Rule(
        "a visibility map is told from its relation", "event.rs", 'fork.ends_with(b"_vm")', "fork.is_empty()"
    ),
    Rule(
        "a transaction log is no relation",
        "event.rs",
        '&& !path.starts_with(b"pg_")',
        "",
    ),
    Rule(
        "temporary files are not tracked",
        "event.rs",
        "any(|part| part.starts_with",
        "all(|part| part.starts_with",
    ),
    Rule(
        "flushes wait for each other",
        "device.rs",
        "free.max(now_ns).saturating_add",
        "now_ns.max(free / 2).saturating_add",
    ),
    Rule(
        "a transfer takes its time",
        "device.rs",
        "u64::try_from(ns).unwrap_or(u64::MAX)",
        "u64::try_from(ns / 2).unwrap_or(u64::MAX)",
    ),
)
