#!/bin/sh
# Compares the public interfaces of the libraries with those of the last release, by cargo-semver-checks: fails for a
# change that the versions in Cargo.toml do not allow.
#   scripts/semver.sh         the last tag that is reachable
#   scripts/semver.sh REV     that state of the repository
# Ends with 3 where nothing has been released yet, or cargo-semver-checks cannot be installed.
set -eu
cd "$(dirname "$0")/.."

# More than it takes to build on two cores.
INSTALL_SECONDS_MAX=1500

baseline=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [ -z "$baseline" ]; then
    echo "semver: nothing has been released yet (no tag v..): there is no interface to keep" >&2
    exit 3
fi
if ! command -v cargo-semver-checks >/dev/null &&
    ! timeout "$INSTALL_SECONDS_MAX" cargo install cargo-semver-checks --locked --debug --version '^0.51'; then
    echo "cargo-semver-checks is not installed, and cannot be: cargo install cargo-semver-checks --locked" >&2
    exit 3
fi
for crate in leasehold-resp leasehold; do
    # Features whose names begin with _ are no part of the interface; it leaves them out.
    cargo semver-checks --package "$crate" --baseline-rev "$baseline" || exit 1
done
