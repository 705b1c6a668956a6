#!/bin/bash
# Holds lock libraries against what a lock promises, each behind an adapter: see checker/README.md.
#   scripts/checker.sh                Leasehold, which must be clean, and a lock that must be found faulty
#   scripts/checker.sh queue SECONDS  64 processes that wait for Leasehold's locks, for so long at each of one
#                                     server, five, a Sentinel service and a Cluster
#   scripts/checker.sh all [SECONDS]  and redis-py, node-redlock, redis-semaphore and rslock, whose packages go
#                                     below target/; writes what was found to target/checker/report.txt
set -euo pipefail
cd "$(dirname "$0")/.."

SECONDS_DEFAULT=10
SEED=${LEASEHOLD_CHECKER_SEED:-}

scripts/setup.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --quiet --locked --package leasehold-checker
seed=()
[ -z "$SEED" ] || seed=(--seed "$SEED")
check() {
    "$target/debug/leasehold-checker" "${seed[@]}" "$@"
}
queue() {
    "$target/debug/leasehold-checker" queue "${seed[@]}" --seconds "$@"
}

if [ "${1:-}" = queue ]; then
    seconds=${2:?the seconds of each run}
    queue "$seconds"
    queue "$seconds" --servers 5
    queue "$seconds" --sentinel
    queue "$seconds" --cluster
    exit
fi
if [ "${1:-}" != all ]; then
    queue "$SECONDS_DEFAULT"
    check --seconds "$SECONDS_DEFAULT"
    check --seconds "$SECONDS_DEFAULT" --servers 5
    check --seconds "$SECONDS_DEFAULT" --faulty -- naive
    exit
fi
seconds=${2:-$SECONDS_DEFAULT}

# A directory for each state of the lists of packages: what stands there is complete.
here=checker/adapters
wanted=$(cat $here/requirements.txt $here/package-lock.json | sha256sum | cut -c1-16)
packages=$target/checker/$wanted
if [ ! -d "$packages" ]; then
    scripts/setup.sh python npm
    mkdir -p "$target/checker"
    fresh=$(mktemp -d "$target/checker/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    cp $here/package.json $here/package-lock.json "$fresh"
    npm ci --prefix "$fresh" --silent --no-audit --no-fund --ignore-scripts >&2
    python3 -m venv "$fresh/pip"
    "$fresh/pip/bin/python" -m pip install --quiet --disable-pip-version-check \
        --target "$fresh/python" --requirement $here/requirements.txt >&2
    rm -rf "$fresh/pip"
    mv -T "$fresh" "$packages"
    trap - EXIT
fi
peers=$target/peers
cargo build --quiet --release --locked --manifest-path benches/peers/Cargo.toml --target-dir "$peers"
export PYTHONPATH=$packages/python

# What others' locks show is told, and fails nothing.
told() {
    printf '\n=== %s\n' "$1"
    shift
    check --seconds "$seconds" "$@" || [ $? -eq 1 ]
}
{
    told "Leasehold, one server"
    told "Leasehold, five servers" --servers 5
    told "A naive lock" -- naive
    told "redis-py" -- python3 $here/redis_py.py
    told "node-redlock, one server" -- node $here/node_redlock.mjs "$packages"
    told "node-redlock, five servers" --servers 5 -- node $here/node_redlock.mjs "$packages"
    told "redis-semaphore, two permits" --permits 2 -- node $here/redis_semaphore.mjs "$packages"
    told "rslock, one server" -- "$peers/release/leasehold-peers" adapt-rslock
    told "rslock, five servers" --servers 5 -- "$peers/release/leasehold-peers" adapt-rslock
} | tee "$target/checker/report.txt"
