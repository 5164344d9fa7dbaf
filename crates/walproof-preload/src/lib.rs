//! Preloaded under a PostgreSQL server (`LD_PRELOAD`): the calls of libc that change files or flush them also
//! tell the model of a disk in `walproof-disk`.
//!
//! The state is a file that the environment names (`WALPROOF_DISK_STATE`), mapped by every process of the
//! server; without it the library does nothing. After the power is cut each process stops at its next call.
//!
//! Modules, each knowing those before it: `sys` (the kernel, without libc), `shared` (the mapped state),
//! `section` (locks; the moment of the cut), `paths`, `names` (changes of names), `fds` (what a file descriptor
//! is), `undo` (old contents are kept before a change), `flush` (what becomes durable, and when), and the
//! calls: `calls_data`, `calls_names`, `calls_stdio`.
//!
//! Inside a hook nothing allocates, prints or panics, and errno is what the caller would have seen. Linux on
//! x86-64 with glibc only; elsewhere the library is empty, and the Python side refuses to use it.
//!
//! Not seen, and therefore refused or declared void: writes by io_uring, through shared mappings, splice and
//! sendfile; static programs. Not followed: `mkstemp`, `fcntl(F_DUPFD)`, which PostgreSQL does not use on files
//! of its data directory.

// The whole purpose is to stand in for functions of C. Each unsafe block says why it is right.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod calls_data;
mod calls_names;
mod calls_stdio;
mod fds;
mod flush;
mod names;
mod paths;
mod section;
mod shared;
mod sys;
mod undo;

/// Wraps, and where overflow is checked it cannot even be evaluated: what is below then does not compile.
const fn wrapping(number: u8) -> u8 {
    number + 1
}

// A panic in a hook would end the server. The workspace's Cargo.toml switches both checks off for this crate and the
// model; tests/disk/test_built.py looks into the library that was built.
const _: () = assert!(wrapping(u8::MAX) == 0, "the library under a server must not check for overflow");
const _: () = assert!(!cfg!(debug_assertions), "the library under a server must not have debug assertions");
