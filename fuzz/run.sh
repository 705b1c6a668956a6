#!/bin/sh
# Runs fuzz targets, two at a time, and fails if one of them finds something. Each goes on from its corpus in
# fuzz/corpus, which begins as fuzz/corpus.tar.gz has it.
#
# usage: fuzz/run.sh SECONDS [TARGET[:BYTES]...]        (default: every target, with inputs of libFuzzer's lengths)
# BYTES: the longest input. Short ones reach most of what there is, several times as fast.
# FUZZ_SANITIZER=none leaves out the sanitizer, and the tracing of comparisons: many more executions, for code
# that is safe Rust, from a corpus that has met the values that are compared with. Short inputs are then judged by
# the edges that they reach alone, not by how often: libFuzzer's bookkeeping takes longer than the targets otherwise.
set -eu

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET[:BYTES]...]}
shift
cd "$(dirname "$0")"

[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir .)
[ -d corpus ] || tar xzf corpus.tar.gz
flags="--fuzz-dir . --sanitizer ${FUZZ_SANITIZER:-address}"
lean=
if [ "${FUZZ_SANITIZER:-}" = none ]; then
    flags="$flags --no-trace-compares"
    lean="-use_counters=0 -entropic=0 -reduce_inputs=0"
fi
export flags lean seconds
# shellcheck disable=SC2086
cargo +nightly fuzz build $flags

printf '%s\n' "$@" | xargs -P 2 -n 1 sh -euc '
    target=${1%:*}
    max=${1#"$target"}
    mkdir -p "corpus/$target"
    seeds=seeds/wire
    [ -d "seeds/$target" ] && seeds=seeds/$target
    log=$(mktemp)
    trap "rm -f \"$log\"" EXIT
    if cargo +nightly fuzz run $flags "$target" "corpus/$target" "$seeds" -- \
        ${max:+-max_len=${max#:} $lean} -max_total_time="$seconds" -timeout=10 -dict=resp.dict -print_final_stats=1 >"$log" 2>&1; then
        sed -n "s/^stat::number_of_executed_units: */== $1, $seconds s, executions: /p" "$log"
    else
        cat "$log"
        echo "== FAILED: $1"
        exit 1
    fi
' sh
