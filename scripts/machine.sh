#!/bin/bash
# Tries the library with the features that the machine serves alone, by the tests of all that it does.
#   scripts/machine.sh            the tests, and some seconds of the soak
#   scripts/machine.sh lock::     those with this in their names: what follows goes to the tests
#   scripts/machine.sh --lints    clippy
set -euo pipefail
cd "$(dirname "$0")/.."

build=(--package leasehold --locked --features blocking,cluster,election,examine,family,groups,inspect,metrics,sentinel,serde,sharing,takeover,testing,tls,tracing --test in_memory --test it --test soak --example tested)

if [ "${1:-}" = --lints ]; then
    exec cargo clippy --lib "${build[@]}" -- -D warnings
fi

# Of other programs than ours, or of what only the engine does.
others=(direct:: examples:: harness:: migration::)
exec cargo test "${build[@]}" -- "${others[@]/#/--skip=}" "$@"
