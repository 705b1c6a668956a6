#!/bin/bash
# Holds lock libraries against what a lock promises, each behind an adapter: see checker/README.md.
#   scripts/checker.sh                Leasehold's locks, those of a default build and its blocking handles among them,
#                                     readers, writers and permits, which must be clean, and naive ones, which must be
#                                     found faulty
#   scripts/checker.sh queue SECONDS  64 processes that wait for Leasehold's locks, for so long at each of one
#                                     server, five, a Sentinel service and a Cluster
#   scripts/checker.sh all [SECONDS]  and redis-py, node-redlock, redis-semaphore, rslock and redsync, whose
#                                     packages go below target/; writes what was found to
#                                     target/checker/report.txt
set -euo pipefail
cd "$(dirname "$0")/.."

SECONDS_DEFAULT=10
SEED=${LEASEHOLD_CHECKER_SEED:-}

scripts/setup.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target/checker"
# Of a build by itself, or else others would choose its features: what serves a default build of the library.
cargo build --quiet --locked --package leasehold-checker --no-default-features
cp "$target/debug/leasehold-checker" "$target/checker/machine"
cargo build --quiet --locked --package leasehold-checker
cp "$target/debug/leasehold-checker" "$target/checker/full"
seed=()
[ -z "$SEED" ] || seed=(--seed "$SEED")
build=full
check() {
    "$target/checker/$build" "${seed[@]}" "$@"
}
queue() {
    "$target/checker/$build" queue "${seed[@]}" --seconds "$@"
}

if [ "${1:-}" = queue ]; then
    seconds=${2:?the seconds of each run}
    for build in machine full; do
        queue "$seconds"
        queue "$seconds" --servers 5
    done
    queue "$seconds" --sentinel
    queue "$seconds" --cluster
    exit
fi
of_default_build() {
    build=machine
    queue "$SECONDS_DEFAULT"
    check --seconds "$SECONDS_DEFAULT"
    check --seconds "$SECONDS_DEFAULT" --servers 5
    check --seconds 5 -- blocking
    check --seconds 5 --servers 5 -- blocking
}
of_all_features() {
    check --seconds 5
    check --seconds 5 --servers 5
    check --seconds "$SECONDS_DEFAULT" --faulty -- naive
    check --seconds 5 --shares
    check --seconds 5 --shares --servers 5
    check --seconds 5 --shares --faulty -- naive
    check --seconds 5 --permits 2
    check --seconds 5 --permits 2 --servers 3
    check --seconds 5 --permits 2 --servers 3 --faulty -- naive
}
if [ "${1:-}" != all ]; then
    # Beside one another; what the first says comes when both are done.
    said=$(mktemp)
    of_default_build >"$said" 2>&1 &
    # Bare, in no condition: errexit must stay in force inside of a function.
    trap 'wait; cat "$said"; rm "$said"' EXIT
    of_all_features
    wait $!
    exit
fi
seconds=${2:-$SECONDS_DEFAULT}

packages=$(scripts/adapters.sh)
here=checker/adapters
peers=$target/peers
cargo build --quiet --release --locked --manifest-path benches/peers/Cargo.toml --target-dir "$peers"
export PYTHONPATH=$packages/python

# Go has its modules from a proxy of its own; where that cannot be reached, redsync is left out.
scripts/setup.sh golang-go
redsync=$target/checker/redsync
if ! (cd $here/redsync && GOPATH=$target/checker/go go build -modcacherw -o "$redsync" .) >&2; then
    printf 'redsync is left out: Go could not load its modules\n' >&2
    redsync=
fi

# What others' locks show is told, and fails nothing.
told() {
    printf '\n=== %s\n' "$1"
    shift
    check --seconds "$seconds" "$@" || [ $? -eq 1 ]
}
{
    told "Leasehold, one server"
    told "Leasehold, five servers" --servers 5
    told "Leasehold, readers and a writer" --shares
    told "Leasehold, readers and a writer, five servers" --shares --servers 5
    told "Leasehold, two permits" --permits 2
    told "Leasehold, two permits, three servers" --permits 2 --servers 3
    told "A naive lock" -- naive
    told "Naive readers and a writer" --shares -- naive
    told "Two naive permits, three servers" --permits 2 --servers 3 -- naive
    told "redis-py" -- python3 $here/redis_py.py
    told "node-redlock, one server" -- node $here/node_redlock.mjs "$packages"
    told "node-redlock, five servers" --servers 5 -- node $here/node_redlock.mjs "$packages"
    told "redis-semaphore, two permits" --permits 2 -- node $here/redis_semaphore.mjs "$packages"
    told "rslock, one server" -- "$peers/release/leasehold-peers" adapt-rslock
    told "rslock, five servers" --servers 5 -- "$peers/release/leasehold-peers" adapt-rslock
    [ -z "$redsync" ] || told "redsync, one server" -- "$redsync"
    [ -z "$redsync" ] || told "redsync, five servers" --servers 5 -- "$redsync"
} | tee "$target/checker/report.txt"
