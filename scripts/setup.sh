#!/bin/sh
# Makes sure that the tests find what they need: cargo, a C compiler (Rust links with
# it, and tests build a library that sets a server's clock) and redis-server.
# Installs redis-server where it is missing; says nothing where nothing is to do.
set -eu

OLDEST_REDIS=7
policy=/usr/sbin/policy-rc.d

complain() {
    echo "setup: $*" >&2
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        complain "not root, and there is no sudo: run as root: $*"
        return 1
    fi
}

# Debian's package starts a redis of the system's own, on port 6379. Nobody asked for that, and to
# stop it afterwards would be to end a process that we did not start. A policy-rc.d that exits with
# 101 is Debian's way to forbid it; one that is there already is the administrator's, and stays.
install_with_apt() {
    if [ ! -e "$policy" ]; then
        trap 'as_root rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return 1
        as_root chmod 755 "$policy" || return 1
    fi
    install='env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends'
    # The lists may be old or absent: fetch them only if that turns out to matter.
    # shellcheck disable=SC2086
    as_root $install redis-server || { as_root apt-get update && as_root $install redis-server; }
}

# Fedora has Valkey in Redis's place; the second package gives it Redis's command names.
install_with_dnf() {
    as_root dnf install -y redis || as_root dnf install -y valkey valkey-compat-redis
}

install_redis() {
    complain "redis-server is missing: installing it"
    if command -v apt-get >/dev/null; then
        install_with_apt
    elif command -v dnf >/dev/null; then
        install_with_dnf
    elif command -v apk >/dev/null; then
        as_root apk add redis
    elif command -v brew >/dev/null; then
        brew install redis
    else
        complain "no apt-get, dnf, apk or brew here: install redis-server $OLDEST_REDIS or newer" \
            "(https://redis.io/docs/latest/operate/oss_and_stack/install/), and have it in PATH"
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
command -v redis-server >/dev/null || install_redis >&2
if ! command -v redis-server >/dev/null; then
    complain "redis-server was installed and is not in PATH"
    exit 1
fi

# "Redis server v=7.0.15 sha=..."
version=$(redis-server --version | sed -n 's/.* v=\([0-9][0-9.]*\).*/\1/p')
if [ "${version%%.*}" -lt "$OLDEST_REDIS" ] 2>/dev/null || [ -z "$version" ]; then
    complain "warning: redis-server ${version:-of unknown version}:" \
        "the tests need $OLDEST_REDIS.0 or newer, and some will fail"
fi
