#!/bin/sh
# Runs fuzz targets, two at a time, and fails if one of them finds something. Each goes on from its corpus in
# fuzz/corpus, which begins as fuzz/corpus.tar.gz has it.
#
# usage: fuzz/run.sh SECONDS [TARGET...]        (default: every target)
# FUZZ_SANITIZER=none leaves out the sanitizer: many more executions, for code that is safe Rust.
set -eu

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
cd "$(dirname "$0")"

[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir .)
[ -d corpus ] || tar xzf corpus.tar.gz
export FUZZ_SANITIZER="${FUZZ_SANITIZER:-address}" seconds
cargo +nightly fuzz build --fuzz-dir . --sanitizer "$FUZZ_SANITIZER"

printf '%s\n' "$@" | xargs -P 2 -I '{}' sh -euc '
    mkdir -p "corpus/{}"
    seeds=seeds/wire
    [ -d "seeds/{}" ] && seeds=seeds/{}
    log=$(mktemp)
    trap "rm -f \"$log\"" EXIT
    if cargo +nightly fuzz run --fuzz-dir . --sanitizer "$FUZZ_SANITIZER" "{}" "corpus/{}" "$seeds" -- \
        -max_total_time="$seconds" -timeout=10 -dict=resp.dict -print_final_stats=1 >"$log" 2>&1; then
        sed -n "s/^stat::number_of_executed_units: */== {}, $seconds s, executions: /p" "$log"
    else
        cat "$log"
        echo "== FAILED: {}"
        exit 1
    fi
'
