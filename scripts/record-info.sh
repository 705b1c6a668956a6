#!/bin/bash
# Records what servers say of themselves: INFO, in the sections that the library reads, of each server
# that scripts/server.sh gets and of the redis-server in PATH, to tests/vectors/info. Unit tests read
# them (tests/support/recorded.rs): what they say a server says is what one said.
#   scripts/record-info.sh
set -euo pipefail
cd "$(dirname "$0")/.."

into=tests/vectors/info

# shellcheck source=scripts/own-redis.sh
. scripts/own-redis.sh

# record NAME MODE: what the running server says. Where it was installed is nobody's business.
record() {
    local section
    mkdir -p "$into/$1"
    for section in server memory persistence replication; do
        redis-cli -p "$port" INFO "$section"
    done | sed -e 's|^\(executable\):.*/|\1:/usr/bin/|' \
        -e 's|^config_file:/.*/|config_file:/etc/|' >"$into/$1/$2.txt"
    stop_server
    rm -f "$directory"/nodes.conf
}

record_all() {
    server_binary=$1
    local said name
    said=$("$server_binary" --version)
    name=$(sed -n 's/^\([^ ]*\) .* v=\([^ ]*\).*/\L\1-\2/p' <<<"$said")
    rm -rf "${into:?}/$name"
    start_server
    record "$name" standalone
    start_server --cluster-enabled yes
    record "$name" cluster
    # Of nobody: nothing listens there.
    start_server --replicaof 127.0.0.1 1
    record "$name" replica
    start_sentinel
    record "$name" sentinel
    echo "$into/$name"
}

# A Sentinel takes a file, and none of the words that a server takes.
start_sentinel() {
    port=$(random_port)
    printf 'port %s\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 1 1\n' "$port" \
        >"$directory/sentinel.conf"
    : >"$directory/log"
    $dies_with_us "$server_binary" "$directory/sentinel.conf" --sentinel >"$directory/log" 2>&1 &
    server=$!
    served || { cat "$directory/log" >&2 && exit 1; }
}

record_all "$(command -v redis-server)"
while read -r name _; do
    record_all "$(scripts/server.sh "$name")"
done < <(scripts/server.sh --list)
