#!/bin/bash
# Installs the packages of checker/adapters below target/, and prints their directory.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
# A directory for each state of the lists of packages: what stands there is complete.
here=checker/adapters
wanted=$(cat $here/requirements.txt $here/package-lock.json | sha256sum | cut -c1-16)
packages=$target/checker/$wanted
if [ ! -d "$packages" ]; then
    scripts/setup.sh python npm >&2
    mkdir -p "$target/checker"
    fresh=$(mktemp -d "$target/checker/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    cp $here/package.json $here/package-lock.json "$fresh"
    npm ci --prefix "$fresh" --silent --no-audit --no-fund --ignore-scripts >&2
    python3 -m venv "$fresh/pip"
    "$fresh/pip/bin/python" -m pip install --quiet --disable-pip-version-check \
        --target "$fresh/python" --requirement $here/requirements.txt >&2
    rm -rf "$fresh/pip"
    mv -T "$fresh" "$packages"
    trap - EXIT
fi
echo "$packages"
