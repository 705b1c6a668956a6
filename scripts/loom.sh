#!/bin/sh
# Tries every order in which those can come that write to a connection, up to so many interruptions: see
# src/driver/wire/interleavings.rs. Arguments go to the test program.
#   scripts/loom.sh                              minutes
#   LOOM_MAX_PREEMPTIONS=3 scripts/loom.sh       hours
#   LOOM_LOG=trace scripts/loom.sh --exact NAME --nocapture
set -eu
cd "$(dirname "$0")/.."

# A directory of its own: with other flags everything would be compiled each time.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/loom"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg leasehold_loom"
# Optimised, because it is millions of runs.
exec cargo test --locked --lib --config 'profile.dev.package.leasehold.opt-level=2' \
    --config 'profile.dev.package.loom.opt-level=3' interleavings -- "$@"
