#!/bin/sh
# Repeats a failover in which two servers are masters for ten seconds, so many times for each choice of
# Sentinels, and prints which locks were held by two, and how long nothing was granted, at last as rows
# of the table in docs/evidence.md: see tests/it/sentinel/open.rs.
#   scripts/failovers.sh 10
#   LEASEHOLD_TEST_SERVER=/path/to/valkey-server scripts/failovers.sh 10
set -eu
cd "$(dirname "$0")/.."

runs=${1:-}
case $runs in
'' | 0 | *[!0-9]*)
    echo "usage: scripts/failovers.sh RUNS" >&2
    exit 2
    ;;
esac
scripts/setup.sh
export LEASEHOLD_FAILOVERS="$runs"
exec cargo test --locked --features sentinel --test it sentinel::open:: -- --nocapture
