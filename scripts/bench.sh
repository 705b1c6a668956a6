#!/bin/sh
# Pits Leasehold against other clients and against the least that could be done, on redis-servers
# that it starts itself; writes target/bench/SCENARIO.json, and the tables on stdout.
#   scripts/bench.sh                  all of it, some half an hour
#   scripts/bench.sh uncontended      or: syscalls throughput redlock contention renewal members codec adoption
#   scripts/bench.sh uncontended-pinned    also redlock-pinned, contention-pinned: on one CPU, and on two
#   scripts/bench.sh alternatives     locks of other stores: PostgreSQL, etcd, ZooKeeper, NATS; installs their servers
#   scripts/bench.sh --quick          all but adoption in two minutes, to see that it works
#   scripts/bench.sh --record ..      into docs/bench, and makes from it what the documents say
set -eu
cd "$(dirname "$0")/.."

directory=target/bench
if [ "${1:-}" = --record ]; then
    directory=docs/bench
    shift
fi

scripts/setup.sh
program=peers
if [ "${1:-}" = alternatives ]; then
    program=alternatives
    shift
    # protoc, for the client of etcd.
    scripts/setup.sh postgresql etcd-server zookeeper nats-server protobuf-compiler libprotobuf-dev
fi
# Apart from the project's own, unless told: another workspace, with other versions.
target=${CARGO_TARGET_DIR:-$PWD/target/$program}
case "$program $* " in
*' members '* | 'peers  ' | 'peers --quick ')
    # What runs in node is left out where its packages cannot be installed.
    if packages=$(scripts/adapters.sh); then export LEASEHOLD_PEERS_PACKAGES="$packages"; fi
    ;;
esac
cargo build --release --locked --manifest-path "benches/$program/Cargo.toml" --target-dir "$target"
"$target/release/leasehold-$program" --out "$directory" "$@"
[ "$directory" = target/bench ] || scripts/figures.py
