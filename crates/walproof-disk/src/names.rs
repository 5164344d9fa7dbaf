//! Which names exist after a power cut.

use std::collections::BTreeMap;

use crate::files::FileId;
use crate::journal::{NameChange, NameOp};
use crate::Error;

/// Root and path below it; empty for the root's folder itself.
pub type Path = (u8, Vec<u8>);

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File(FileId),
    /// A folder.
    Folder,
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
}

/// All names.
pub type Tree = BTreeMap<Path, Node>;

/// Takes back the changes that do not survive, in a tree that has all of them. `survives` has one value for
/// each change, in order.
///
/// # Errors
/// [`Error::History`] when the changes do not fit the tree.
pub fn rewind(mut tree: Tree, ops: &[NameOp], survives: &[bool]) -> Result<Tree, Error> {
    let Some(first_lost) = survives.iter().position(|kept| !kept) else { return Ok(tree) };
    // Back to before the first that is lost, then forward again with those that survive.
    for op in ops.iter().skip(first_lost).rev() {
        undo(&mut tree, op)?;
    }
    for (op, _) in ops.iter().zip(survives).skip(first_lost).filter(|(_, kept)| **kept) {
        redo(&mut tree, op)?;
    }
    Ok(tree)
}

/// Makes a choice possible: what a surviving change is built on survives too, unless that is lost for
/// certain; then the change is lost, too. `durable` are those that have to survive.
#[must_use]
pub fn close(ops: &[NameOp], durable: &[bool], wanted: &[bool]) -> Vec<bool> {
    let mut kept: Vec<bool> = durable.iter().zip(wanted).map(|(must, want)| *must || *want).collect();
    let mut must: Vec<bool> = durable.to_vec();
    // What a durable change is built on must have survived.
    for (place, op) in ops.iter().enumerate().rev() {
        let later = ops.iter().zip(&must).skip(place + 1);
        if later.into_iter().any(|(other, must)| *must && touch(op, other)) {
            if let Some(mark) = must.get_mut(place) {
                *mark = true;
            }
            if let Some(mark) = kept.get_mut(place) {
                *mark = true;
            }
        }
    }
    // What is built on a lost change is lost.
    for (place, op) in ops.iter().enumerate() {
        let lost_before = ops.iter().zip(&kept).take(place).any(|(other, kept)| !kept && touch(other, op));
        if lost_before {
            if let Some(mark) = kept.get_mut(place) {
                *mark = false;
            }
        }
    }
    kept
}

fn touch(earlier: &NameOp, other: &NameOp) -> bool {
    paths(earlier).any(|a| paths(other).any(|b| is_within(a, b) || is_within(b, a)))
}

fn paths(op: &NameOp) -> impl Iterator<Item = &Path> {
    [Some(&op.a), (op.change == NameChange::Rename).then_some(&op.b)].into_iter().flatten()
}

fn is_within(inner: &Path, outer: &Path) -> bool {
    inner.0 == outer.0
        && inner
            .1
            .strip_prefix(outer.1.as_slice())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn misfit(op: &NameOp) -> Error {
    Error::History { change: op.change, path: String::from_utf8_lossy(&op.a.1).into_owned() }
}

fn undo(tree: &mut Tree, op: &NameOp) -> Result<(), Error> {
    match op.change {
        NameChange::Create | NameChange::Link | NameChange::Symlink => {
            tree.remove(&op.a).map(drop).ok_or_else(|| misfit(op))
        }
        NameChange::MakeFolder => {
            // With what is in it and not tracked: temporary files.
            take_subtree(tree, &op.a).map(drop).ok_or_else(|| misfit(op))
        }
        NameChange::Unlink => {
            let node = op.victim.map_or_else(|| Node::Symlink(op.b.1.clone()), Node::File);
            tree.insert(op.a.clone(), node);
            Ok(())
        }
        NameChange::RemoveFolder => {
            tree.insert(op.a.clone(), Node::Folder);
            Ok(())
        }
        NameChange::Rename => {
            let moved = take_subtree(tree, &op.b).ok_or_else(|| misfit(op))?;
            put_subtree(tree, &op.a, moved);
            if let Some(victim) = op.victim {
                tree.insert(op.b.clone(), Node::File(victim));
            }
            Ok(())
        }
    }
}

fn redo(tree: &mut Tree, op: &NameOp) -> Result<(), Error> {
    match op.change {
        NameChange::Create | NameChange::Link => drop(tree.insert(op.a.clone(), Node::File(op.id))),
        NameChange::MakeFolder => drop(tree.insert(op.a.clone(), Node::Folder)),
        NameChange::Symlink => drop(tree.insert(op.a.clone(), Node::Symlink(op.b.1.clone()))),
        NameChange::Unlink => return tree.remove(&op.a).map(drop).ok_or_else(|| misfit(op)),
        NameChange::RemoveFolder => return take_subtree(tree, &op.a).map(drop).ok_or_else(|| misfit(op)),
        NameChange::Rename => {
            let moved = take_subtree(tree, &op.a).ok_or_else(|| misfit(op))?;
            take_subtree(tree, &op.b);
            put_subtree(tree, &op.b, moved);
        }
    }
    Ok(())
}

/// A node and what is below it, with the ends of their paths.
fn take_subtree(tree: &mut Tree, path: &Path) -> Option<Vec<(Vec<u8>, Node)>> {
    tree.get(path)?;
    let inside: Vec<Path> = if tree.get(path) == Some(&Node::Folder) {
        tree.range(path.clone()..)
            .map(|(name, _)| name)
            .take_while(|name| name.0 == path.0)
            .take_while(|name| name.1.starts_with(&path.1))
            .filter(|name| is_within(name, path))
            .cloned()
            .collect()
    } else {
        vec![path.clone()]
    };
    Some(
        inside
            .into_iter()
            .filter_map(|name| {
                let node = tree.remove(&name)?;
                Some((name.1.get(path.1.len()..).unwrap_or_default().to_vec(), node))
            })
            .collect(),
    )
}

fn put_subtree(tree: &mut Tree, path: &Path, nodes: Vec<(Vec<u8>, Node)>) {
    for (rest, node) in nodes {
        let mut name = path.1.clone();
        name.extend(rest);
        tree.insert((path.0, name), node);
    }
}
