#!/bin/sh
# Shows what a lock does, step by step, on a redis-server of its own: a free port of the loopback,
# nothing on disk, stopped when this ends.
set -eu
cd "$(dirname "$0")/.."

PORT_TRIES=20
scripts/setup.sh
cargo build --quiet --locked --example demo

server=
directory=$(mktemp -d)
clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$directory"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# From 20000 to 29999: below the ports that systems hand out to clients.
random_port() {
    echo $((20000 + $(od -An -N2 -tu2 /dev/urandom) % 10000))
}

# 0: it serves. 1: it ended, or said nothing in five seconds.
served() {
    tries=100
    while [ "$tries" -gt 0 ] && kill -0 "$server" 2>/dev/null; do
        if grep -q "Ready to accept connections" "$directory/log"; then
            return 0
        fi
        sleep 0.05
        tries=$((tries - 1))
    done
    return 1
}

start_server() {
    tries_left=$PORT_TRIES
    while [ "$tries_left" -gt 0 ]; do
        port=$(random_port)
        redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no \
            --daemonize no --dir "$directory" >"$directory/log" 2>&1 &
        server=$!
        if served; then
            return
        fi
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
        server=
        grep -q "Address already in use" "$directory/log" || break
        tries_left=$((tries_left - 1))
    done
    echo "demo: redis-server did not start:" >&2
    cat "$directory/log" >&2
    exit 1
}

start_server
echo "redis-server (process $server) on port $port, for this demo only"
cargo run --quiet --locked --example demo -- "redis://127.0.0.1:$port"
