#!/bin/sh
# Lets one reply go wrong, again and again (lost, repeated, joined by a stray, followed by nothing but
# pushes), while callers ask a real server for locks that another holds, until so many attempts were
# made after faults; prints what came of them, as rows of the table in docs/evidence.md, and fails if one
# was granted: see tests/soak/attack.rs.
#   scripts/attack.sh              a million attempts
#   scripts/attack.sh 100000
#   scripts/attack.sh --machine 100000    on what serves a default build: see ARCHITECTURE.md
set -eu
cd "$(dirname "$0")/.."

features=full
if [ "${1:-}" = --machine ]; then
    features=
    shift
fi
attempts=${1:-1000000}
case $attempts in
0 | *[!0-9]*)
    echo "usage: scripts/attack.sh [--machine] [ATTEMPTS]" >&2
    exit 2
    ;;
esac
scripts/setup.sh
export LEASEHOLD_ATTACK_ATTEMPTS="$attempts"
exec cargo test --release --locked --features "$features" --test soak replies_that_are -- --nocapture
