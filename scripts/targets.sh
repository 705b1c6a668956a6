#!/bin/bash
# Checks that the library compiles, without a warning, for systems on which it is not tested here: Windows, with TLS as
# well, whose C needs Debian's mingw; and macOS without TLS, for whose C there is no compiler here.
# Ends with 3 where rustup cannot fetch what a target needs.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2034
script=targets
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

# All that is in `full` but TLS.
features=$(sed -n 's/^full = \[\(.*\)\]$/\1/p' Cargo.toml | tr -d '" ' | sed 's/\btls,//')

check() {
    local target=$1
    if ! rustup target list --installed | grep -qxF "$target" && ! rustup target add "$target"; then
        complain "rustup cannot fetch $target"
        exit 3
    fi
    cargo clippy --package leasehold --lib --locked --target "$target" --features "$2" -- -D warnings
}

if command -v x86_64-w64-mingw32-gcc >/dev/null || install_with_apt gcc-mingw-w64-x86-64-win32; then
    check x86_64-pc-windows-gnu "$features,tls"
else
    complain "there is no compiler of C for Windows: checked without TLS"
    check x86_64-pc-windows-gnu "$features"
fi
check aarch64-apple-darwin "$features"
