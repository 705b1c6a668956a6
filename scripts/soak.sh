#!/bin/sh
# Lets real servers and networks fail at random for so many minutes, while clients take locks, and
# checks every history: see tests/soak.rs, also for the environment that it heeds.
#   scripts/soak.sh 30
#   LEASEHOLD_SOAK_SEED=12345 scripts/soak.sh 1     the faults of a run that was printed
set -eu
cd "$(dirname "$0")/.."

minutes=${1:-}
case $minutes in
'' | 0 | *[!0-9]*)
    echo "usage: scripts/soak.sh MINUTES" >&2
    exit 2
    ;;
esac
scripts/setup.sh
export LEASEHOLD_SOAK_SECONDS=$((minutes * 60))
exec cargo test --release --locked --test soak what_fails_at_random -- --nocapture
