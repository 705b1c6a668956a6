#!/bin/sh
# Checks what comes in with dependencies against deny.toml, by cargo-deny: their licences, where they
# come from, which of them are not wanted, and known vulnerabilities, if the list of these can be
# fetched.
# Ends with 3 where cargo-deny is not installed and cannot be.
set -eu
cd "$(dirname "$0")/.."

# More than it takes to build on two cores; --debug, because it runs for a second.
INSTALL_SECONDS_MAX=900

if ! cargo deny --version >/dev/null 2>&1 &&
    ! timeout "$INSTALL_SECONDS_MAX" cargo install cargo-deny --locked --debug --version '^0.20'; then
    echo "cargo-deny is not installed, and cannot be: cargo install cargo-deny --locked" >&2
    exit 3
fi
# What failed is a set of bits in its exit code, and may be 3.
cargo deny --locked --log-level error check bans licenses sources || exit 1
if ! cargo deny fetch db; then
    echo "deny: the list of vulnerabilities cannot be fetched from here: not checked" >&2
    exit 0
fi
cargo deny --locked --log-level error check --disable-fetch advisories || exit 1
