#!/bin/sh
# Runs the unit tests, optimised: models of all small behaviours and simulations compute for minutes. scripts/mutants.sh and
# scripts/simulate.sh run some of the same program. Arguments go to the test programs.
#   scripts/units.sh                   all of them
#   scripts/units.sh policy::model     what is named so
set -eu
cd "$(dirname "$0")/.."
exec cargo test --workspace --exclude leasehold-testing --all-features --lib --locked \
    --config 'profile.dev.package.leasehold.opt-level=2' \
    --config 'profile.dev.package.leasehold.codegen-units=16' -- "$@"
