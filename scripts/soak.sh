#!/bin/sh
# Lets real servers and networks fail at random for so many minutes, while clients take locks, and
# checks every history: see tests/soak.rs, also for the environment that it heeds. Or has Sentinels make so many
# failovers, with older snapshots and servers that are demoted and promoted again beside them, and checks tokens: see
# tests/soak/failovers.rs.
#   scripts/soak.sh 30
#   scripts/soak.sh --machine 30      locks alone, on what serves a default build: see ARCHITECTURE.md
#   scripts/soak.sh --failovers 1000
#   scripts/soak.sh --graces 1000     with a grace, by Sentinels and as many in Clusters: no lock may be held by two
#   LEASEHOLD_SOAK_GRACE=off LEASEHOLD_SOAK_KIND=cluster scripts/soak.sh --graces 50    how many are without, in Clusters
#   LEASEHOLD_SOAK_SEED=12345 scripts/soak.sh 1     the faults of a run that was printed
set -eu
cd "$(dirname "$0")/.."

what=minutes
features=full
case ${1:-} in
--failovers)
    what=failovers
    shift
    ;;
--graces)
    what=failovers
    export LEASEHOLD_SOAK_GRACE="${LEASEHOLD_SOAK_GRACE:-on}"
    shift
    ;;
--machine)
    features=
    shift
    ;;
esac
count=${1:-}
case $count in
'' | 0 | *[!0-9]*)
    echo "usage: scripts/soak.sh [--machine] MINUTES | --failovers COUNT | --graces COUNT" >&2
    exit 2
    ;;
esac
scripts/setup.sh
if [ "$what" = failovers ]; then
    export LEASEHOLD_SOAK_FAILOVERS="$count"
    exec cargo test --release --locked --features full --test soak failovers_and_older_snapshots -- --nocapture
fi
export LEASEHOLD_SOAK_SECONDS=$((count * 60))
exec cargo test --release --locked --features "$features" --test soak what_fails_at_random -- --nocapture
