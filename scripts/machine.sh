#!/bin/bash
# Tries the library with the features that the machine serves alone, by the tests of all that it does.
#   scripts/machine.sh            the tests
#   scripts/machine.sh --lints    clippy
set -euo pipefail
cd "$(dirname "$0")/.."

build=(--package leasehold --locked --features blocking,metrics,serde,tls,tracing --test it)

if [ "${1:-}" = --lints ]; then
    exec cargo clippy --lib "${build[@]}" -- -D warnings
fi

# Of other programs than ours, or of what only the engine does.
others=(direct:: examples:: harness:: migration::)
exec cargo test "${build[@]}" -- "${others[@]/#/--skip=}"
