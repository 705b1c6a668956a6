# shellcheck shell=sh
# A server of the reading script's own: a free port of the loopback, nothing on disk, stopped when the
# script ends. To be read by other scripts (`.`); start_server sets port and server. Its arguments are
# more words of the server's command line.
# LEASEHOLD_TEST_SERVER is the path of the server; unset, it is the redis-server in PATH.

server_binary=${LEASEHOLD_TEST_SERVER:-redis-server}

PORT_TRIES=20

server=
directory=$(mktemp -d)

# For a script that has started more than this one.
stop_others() {
    :
}

stop_server() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    server=
}

clean_up() {
    stop_others
    stop_server
    rm -rf "$directory"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# A script that is killed cannot clean up: then the kernel ends what it started, where it can.
dies_with_us=
if command -v setpriv >/dev/null && setpriv --pdeathsig KILL true 2>/dev/null; then
    dies_with_us="setpriv --pdeathsig KILL"
fi

# From 20000 to 29999: below the ports that systems hand out to clients.
random_port() {
    echo $((20000 + $(od -An -N2 -tu2 /dev/urandom) % 10000))
}

# 0: it serves. 1: it ended, or said nothing in five seconds.
served() {
    tries=100
    while [ "$tries" -gt 0 ] && kill -0 "$server" 2>/dev/null; do
        if grep -q -e "Ready to accept connections" -e "Sentinel ID is" "$directory/log"; then
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
        # What one before it said is not to be taken for its word.
        : >"$directory/log"
        $dies_with_us "$server_binary" --port "$port" --bind 127.0.0.1 --save "" --appendonly no \
            --daemonize no --dir "$directory" "$@" >"$directory/log" 2>&1 &
        server=$!
        if served; then
            return
        fi
        stop_server
        grep -q "Address already in use" "$directory/log" || break
        tries_left=$((tries_left - 1))
    done
    echo "$server_binary did not start:" >&2
    cat "$directory/log" >&2
    exit 1
}
