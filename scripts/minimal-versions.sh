#!/bin/bash
# Checks that the crates compile with the oldest versions of their dependencies that Cargo.toml
# allows, in a copy of the tree. What only tests need is left out: nobody else has to get along
# with it.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-$PWD/target}/minimal-versions
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

rustup toolchain list | grep '^nightly' >/dev/null ||
    rustup toolchain install nightly --profile minimal
git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$copy"
cd "$copy"
for manifest in Cargo.toml resp/Cargo.toml cli/Cargo.toml; do
    awk '/^\[/ { is_for_tests = /dev-dependencies\]$/ } !is_for_tests' "$manifest" >manifest
    mv manifest "$manifest"
done
# Nor do the tests' helpers have to.
sed -i 's|, "tests/support"||; s|"checker", ||' Cargo.toml
cargo +nightly update --quiet -Z direct-minimal-versions
# The command has its own features of the library on.
for crates in "--package leasehold" "--workspace --all-features"; do
    # shellcheck disable=SC2086
    CARGO_TARGET_DIR=$target_dir cargo check $crates --lib --bins --locked --quiet
done
cargo tree --workspace --all-features --depth 1 --prefix none | grep -v "^leasehold" | sort -u
