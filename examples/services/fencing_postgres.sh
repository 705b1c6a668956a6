#!/bin/sh
# Shows what a fencing token is for, on a redis-server and a PostgreSQL of its own: both listen to
# this machine alone, keep nothing, and are stopped when this ends. Installs PostgreSQL by apt-get
# where it is missing.
#   examples/services/fencing_postgres.sh             builds the example and runs it
#   examples/services/fencing_postgres.sh PROGRAM     runs it as it was built before, and installs nothing
set -eu
cd "$(dirname "$0")/../.."

# shellcheck disable=SC2034
script=fencing_postgres
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

program=${1:-}
if [ -z "$program" ]; then
    scripts/setup.sh postgresql
    cargo build --quiet --locked --package leasehold-services --example fencing_postgres
    program=${CARGO_TARGET_DIR:-target}/debug/examples/fencing_postgres
fi

bin=$(directory_of_postgres) || {
    complain "PostgreSQL is missing: scripts/setup.sh postgresql"
    exit 1
}

# shellcheck source=scripts/own-redis.sh
. scripts/own-redis.sh

postgres=
stop_others() {
    if [ -n "$postgres" ]; then
        # Without waiting for clients.
        kill -INT "$postgres" 2>/dev/null || true
        wait "$postgres" 2>/dev/null || true
    fi
}

# PostgreSQL refuses to run as root, and is to end with us as the redis-server does.
unprivileged="$dies_with_us"
if [ "$(id -u)" -eq 0 ]; then
    user=$(id -u postgres 2>/dev/null || id -u nobody)
    unprivileged="setpriv --reuid $user --regid $user --clear-groups --pdeathsig INT"
fi

start_postgres() {
    # The others of this machine have no business there, but its user has to get in.
    chmod 711 "$directory"
    data=$directory/postgres
    mkdir -m 700 "$data"
    if [ "$(id -u)" -eq 0 ]; then
        chown "$user" "$data"
    fi
    # shellcheck disable=SC2086
    $unprivileged "$bin/initdb" --pgdata "$data/data" --username example --auth trust \
        --encoding UTF8 --locale C --no-sync >"$directory/initdb.log" 2>&1 || {
        cat "$directory/initdb.log" >&2
        return 1
    }
    # A socket in a directory of its own, and no port.
    # shellcheck disable=SC2086
    $unprivileged "$bin/postgres" -D "$data/data" -k "$data" -c listen_addresses= -c fsync=off \
        >"$directory/postgres.log" 2>&1 &
    postgres=$!
    tries=200
    until grep -q "ready to accept connections" "$directory/postgres.log"; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$postgres" 2>/dev/null; then
            complain "PostgreSQL did not start:"
            cat "$directory/postgres.log" >&2
            return 1
        fi
        sleep 0.05
    done
}

start_server
start_postgres
"$program" "redis://127.0.0.1:$port" "host=$data user=example dbname=postgres"
