#!/bin/sh
# Makes sure that the tests find what they need: cargo, a C compiler (Rust links with
# it, and tests build a library that sets a server's clock) and redis-server.
# Installs redis-server where it is missing, unless LEASEHOLD_TEST_SERVER names another; says nothing
# where nothing is to do.
#   scripts/setup.sh                          that
#   scripts/setup.sh postgresql python npm    and what some examples need, or some of it
#   scripts/setup.sh haproxy stunnel4 nutcracker  and the proxies that tests put before servers
#   scripts/setup.sh etcd-server nats-server  and what scripts/bench.sh alternatives needs
#   scripts/setup.sh servers                  and the servers of scripts/server.sh; or one, by its name
# With LEASEHOLD_TEST_SERVER, tests start the server with that path in the place of redis-server.
set -eu

cd "$(dirname "$0")/.."

OLDEST_REDIS=7
# shellcheck disable=SC2034
script=setup
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

# Fedora has Valkey in Redis's place; the second package gives it Redis's command names.
install_with_dnf() {
    as_root dnf install -y redis || as_root dnf install -y valkey valkey-compat-redis
}

install_redis() {
    how="install redis-server $OLDEST_REDIS or newer, in PATH (https://redis.io/docs/latest/operate/oss_and_stack/install/)"
    if ! may_install && ! command -v brew >/dev/null; then
        complain "redis-server is missing, and this user may not install packages. Have somebody $how;" \
            "or, with python3 and its venv, do without: export LEASEHOLD_TEST_SERVER=\$(scripts/server.sh valkey-9)"
        return 1
    fi
    complain "redis-server is missing: installing it"
    if command -v apt-get >/dev/null; then
        install_with_apt redis-server
    elif command -v dnf >/dev/null; then
        install_with_dnf
    elif command -v apk >/dev/null; then
        as_root apk add redis
    elif command -v brew >/dev/null; then
        brew install redis
    else
        complain "no apt-get, dnf, apk or brew here: $how"
        return 1
    fi
}

if ! command -v cargo >/dev/null; then
    complain "cargo is missing: install Rust as https://rustup.rs says, and open a new shell"
    exit 1
fi
if ! command -v cc >/dev/null; then
    complain "a C compiler (cc) is missing: install gcc or clang"
    exit 1
fi
if ! command -v script >/dev/null; then
    complain "warning: script(1), of util-linux, is missing:" \
        "the tests of the command at a terminal will fail"
fi
server=${LEASEHOLD_TEST_SERVER:-redis-server}
if [ "$server" = redis-server ]; then
    command -v redis-server >/dev/null || install_redis >&2
    if ! command -v redis-server >/dev/null; then
        complain "redis-server was installed and is not in PATH"
        exit 1
    fi
fi
if ! said=$("$server" --version); then
    complain "$server (LEASEHOLD_TEST_SERVER, or redis-server in PATH) cannot be run"
    exit 1
fi
# "Redis server v=7.0.15 sha=..."
version=$(echo "$said" | sed -n 's/.* v=\([0-9][0-9.]*\).*/\1/p')
if [ "${version%%.*}" -lt "$OLDEST_REDIS" ] 2>/dev/null || [ -z "$version" ]; then
    complain "warning: $server ${version:-of unknown version}:" \
        "the tests need $OLDEST_REDIS.0 or newer, and some will fail"
fi

# Python has to be able to make environments of its own.
has() {
    case "$1" in
    postgresql) directory_of_postgres >/dev/null ;;
    python) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    npm) command -v npm >/dev/null ;;
    etcd-server) command -v etcd >/dev/null ;;
    golang-go) command -v go >/dev/null ;;
    nats-server) command -v nats-server >/dev/null ;;
    zookeeper) [ -e /usr/share/java/zookeeper.jar ] ;;
    protobuf-compiler) command -v protoc >/dev/null ;;
    haproxy | nutcracker) [ -x "/usr/sbin/$1" ] ;;
    stunnel4) [ -x /usr/bin/stunnel4 ] ;;
    libprotobuf-dev) [ -e /usr/include/google/protobuf/descriptor.proto ] ;;
    *)
        complain "unknown: $1"
        exit 2
        ;;
    esac
}

for wanted in "$@"; do
    case $wanted in
    servers)
        scripts/server.sh --list | while read -r name _; do
            scripts/server.sh "$name" >/dev/null
        done
        continue
        ;;
    redis-* | valkey-*)
        scripts/server.sh "$wanted" >/dev/null
        continue
        ;;
    esac
    has "$wanted" && continue
    complain "$wanted is missing: installing it"
    if ! command -v apt-get >/dev/null; then
        complain "no apt-get here: install it by hand"
        exit 1
    fi
    case "$wanted" in
    python) install_with_apt python3 python3-venv >&2 ;;
    npm) install_with_apt nodejs npm >&2 ;;
    *) install_with_apt "$wanted" >&2 ;;
    esac
done
