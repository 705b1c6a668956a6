# shellcheck shell=sh
# Finds packages, and installs them. To be read by other scripts (`.`), which name the
# script that complains: script=setup

policy=/usr/sbin/policy-rc.d

complain() {
    echo "$script: $*" >&2
}

# Root may install packages, and others by sudo, which may ask for a password at a terminal.
may_install() {
    [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
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

# Debian's packages of servers start one of the system's own. Nobody asked for that, and to stop it
# afterwards would be to end a process that we did not start. A policy-rc.d that exits with 101 is
# Debian's way to forbid it; one that is there already is the administrator's, and stays.
install_with_apt() (
    if ! may_install; then
        complain "this user may not install packages: have somebody install $*, by apt-get install $*"
        return 1
    fi
    if [ ! -e "$policy" ]; then
        trap 'as_root rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return 1
        as_root chmod 755 "$policy" || return 1
    fi
    install='env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends'
    # The lists may be old or absent: fetch them only if that turns out to matter.
    # shellcheck disable=SC2086
    as_root $install "$@" || { as_root apt-get update && as_root $install "$@"; }
)

# Debian keeps the programs of each version in a directory that is not in PATH.
directory_of_postgres() {
    for bin in /usr/lib/postgresql/*/bin /usr/local/bin /usr/bin; do
        if [ -x "$bin/postgres" ] && [ -x "$bin/initdb" ]; then
            echo "$bin"
            return
        fi
    done
    return 1
}
