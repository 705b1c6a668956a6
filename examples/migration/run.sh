#!/bin/bash
# Shows that locks of other libraries and of this one exclude each other on the same keys, with the
# real redis-py and node-redlock and a redis-server of its own. The packages go below target/ (or
# CARGO_TARGET_DIR), and nowhere else; Python and Node.js are installed by apt-get where they are
# missing.
#   examples/migration/run.sh             builds the example and runs it
#   examples/migration/run.sh PROGRAM     runs it as it was built before; Python and npm are there
set -euo pipefail
cd "$(dirname "$0")/../.."

program=${1:-}
target=${CARGO_TARGET_DIR:-$PWD/target}
if [ -z "$program" ]; then
    scripts/setup.sh python npm
    cargo build --quiet --locked --features groups --example migration
    program=$target/debug/examples/migration
fi

# A directory for each state of the lists of packages: what stands there is complete.
here=examples/migration
wanted=$(cat $here/requirements.txt $here/package-lock.json | sha256sum | cut -c1-16)
packages=$target/migration/$wanted
if [ ! -d "$packages" ]; then
    echo "fetching redis-py and node-redlock to $packages" >&2
    mkdir -p "$target/migration"
    fresh=$(mktemp -d "$target/migration/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    mkdir "$fresh/node"
    cp $here/package.json $here/package-lock.json "$fresh/node"
    npm ci --prefix "$fresh/node" --silent --no-audit --no-fund --ignore-scripts >&2
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

# shellcheck source=scripts/own-redis.sh
. scripts/own-redis.sh
start_server
PYTHONPATH=$packages/python "$program" "redis://127.0.0.1:$port" "$packages/node"
