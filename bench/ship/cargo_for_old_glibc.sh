#!/bin/sh
# cargo, for setuptools-rust (CARGO): what it links needs no newer glibc than GLIBC. Only `rustc` links;
# cargo-zigbuild does that with zig, which carries the symbols of every glibc, and knows no other commands.
set -eu
if [ "$1" != rustc ]; then
    exec cargo "$@"
fi
shift
exec cargo-zigbuild rustc --target "x86_64-unknown-linux-gnu.$GLIBC" "$@"
