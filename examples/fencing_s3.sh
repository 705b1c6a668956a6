#!/bin/bash
# Shows what a fencing token is for in an object store, on a redis-server and a moto (a server with S3's
# interface) of its own: both listen to this machine alone, keep nothing, and are stopped when this ends.
# moto comes from PyPI, below target/ (or CARGO_TARGET_DIR) and nowhere else; Python is installed by
# apt-get where it is missing.
#   examples/fencing_s3.sh             builds the example and runs it
#   examples/fencing_s3.sh PROGRAM     runs it as it was built before; Python is there
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-}
target=${CARGO_TARGET_DIR:-$PWD/target}
if [ -z "$program" ]; then
    scripts/setup.sh python
    cargo build --quiet --locked --example fencing_s3
    program=$target/debug/examples/fencing_s3
fi

# A directory for each state of the list of packages: what stands there is complete.
here=examples/fencing_s3
packages=$target/fencing_s3/$(sha256sum <$here/requirements.txt | cut -c1-16)
if [ ! -d "$packages" ]; then
    echo "fetching moto to $packages" >&2
    mkdir -p "$target/fencing_s3"
    fresh=$(mktemp -d "$target/fencing_s3/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    # The venv is for pip alone: its scripts would know the directory by its first name.
    python3 -m venv "$fresh/pip"
    "$fresh/pip/bin/python" -m pip install --quiet --disable-pip-version-check \
        --target "$fresh/python" --requirement $here/requirements.txt >&2
    rm -rf "$fresh/pip"
    # Somebody else may have been as fast.
    mv -T "$fresh" "$packages" 2>/dev/null || [ -d "$packages" ]
    trap - EXIT
    rm -rf "$fresh"
fi

# shellcheck disable=SC2034
script=fencing_s3
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
# shellcheck source=scripts/own-redis.sh
. scripts/own-redis.sh

moto=
stop_others() {
    if [ -n "$moto" ]; then
        kill "$moto" 2>/dev/null || true
        wait "$moto" 2>/dev/null || true
    fi
}

# With port 0 it takes a free one, and says which.
start_moto() {
    # shellcheck disable=SC2086
    PYTHONPATH=$packages/python $dies_with_us python3 -u -c \
        'import sys; from moto.server import main; main(sys.argv[1:])' \
        -H 127.0.0.1 -p 0 >"$directory/moto.log" 2>&1 &
    moto=$!
    tries=600
    until moto_port=$(grep -o 'http://127.0.0.1:[0-9]*' "$directory/moto.log" | head -n 1 | grep -o '[0-9]*$'); do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$moto" 2>/dev/null; then
            complain "moto did not start:"
            cat "$directory/moto.log" >&2
            return 1
        fi
        sleep 0.05
    done
}

start_server
start_moto
"$program" "redis://127.0.0.1:$port" "127.0.0.1:$moto_port"
