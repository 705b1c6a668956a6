#!/bin/sh
# Runs the library in simulated time for so many seconds, from fresh seeds on every core, and checks
# every history: see src/sim.
#   scripts/simulate.sh 600
#   LEASEHOLD_SIM_SEED=12345 scripts/simulate.sh 1     a run that was printed, with all that happened
#   LEASEHOLD_SIM_SEEDS=300 scripts/simulate.sh 1      always the same runs, however long they take: with the digest of what
#                                                      happened in them, and how long it took, two states of the code compare
set -eu

seconds=${1:-}
case $seconds in
'' | 0 | *[!0-9]*)
    echo "usage: scripts/simulate.sh SECONDS" >&2
    exit 2
    ;;
esac
export LEASEHOLD_SIM_SECONDS="$seconds"
exec "$(dirname "$0")/units.sh" --nocapture --exact sim::tests::no_promise_is_broken_within_the_budget
