#!/bin/sh
# Shows what a lock does, step by step, on a server of its own: a free port of the loopback,
# nothing on disk, stopped when this ends.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh
# A minute or two the first time: cargo shows how far it is.
echo "building the demo"
cargo build --locked --example demo

# shellcheck source=scripts/own-redis.sh
. scripts/own-redis.sh
start_server
echo "$server_binary (process $server) on port $port, for this demo only"
"${CARGO_TARGET_DIR:-target}/debug/examples/demo" "redis://127.0.0.1:$port"
