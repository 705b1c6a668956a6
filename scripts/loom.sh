#!/bin/sh
# Tries every order in which those can come that write to a connection: see tests/loom. Arguments go to the test program.
#   scripts/loom.sh
#   LOOM_LOG=trace scripts/loom.sh --nocapture      with all that was tried
set -eu
cd "$(dirname "$0")/.."
exec cargo test --locked --manifest-path tests/loom/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/loom" --lib -- "$@"
