#!/bin/sh
# Runs fuzz targets one after another, in two processes each, and stops at the first crash.
#
# usage: fuzz/run.sh SECONDS [TARGET...]        (default: every target)
# FUZZ_SANITIZER=none leaves out the sanitizer: many more executions, for code that is safe Rust.
set -eu

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
cd "$(dirname "$0")"

[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir .)
for target in "$@"; do
    echo "== $target, $seconds s"
    mkdir -p "corpus/$target"
    seeds=seeds/wire
    [ -d "seeds/$target" ] && seeds=seeds/$target
    cargo +nightly fuzz run --fuzz-dir . --sanitizer "${FUZZ_SANITIZER:-address}" \
        "$target" "corpus/$target" "$seeds" -- \
        -fork=2 -max_total_time="$seconds" -timeout=10 -dict=resp.dict -print_final_stats=1
done
