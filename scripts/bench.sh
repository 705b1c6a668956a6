#!/bin/sh
# Pits Leasehold against other clients and against the least that could be done, on redis-servers
# that it starts itself; writes target/bench/SCENARIO.{json,svg,md}.
#   scripts/bench.sh                  all of it, some fifteen minutes
#   scripts/bench.sh uncontended      or: syscalls throughput redlock contention renewal codec adoption
#   scripts/bench.sh --quick          all but adoption in less than a minute, to see that it works
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh
# Apart from the project's own, unless told: another workspace, with other versions.
target=${CARGO_TARGET_DIR:-$PWD/target/peers}
cargo build --release --locked --manifest-path benches/peers/Cargo.toml --target-dir "$target"
exec "$target/release/leasehold-peers" --out target/bench "$@"
