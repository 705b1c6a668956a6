#!/bin/bash
# Long runs, made of pieces: each can be stopped at any time, and goes on at the next call. What each piece did
# stands in target/long, with its date and commit; a piece that was stopped counts for nothing.
#   scripts/long.sh                       says how far each run is
#   scripts/long.sh hours 10000           goes on until 10,000 hours have been simulated
#   scripts/long.sh fuzz 10000000000      until all fuzz targets together have had this many executions
#   scripts/long.sh soak 240              until real servers have failed at random for 240 minutes
# LEASEHOLD_PIECE_SECONDS: how long a piece takes, 600 unless told.
set -euo pipefail
cd "$(dirname "$0")/.."

piece=${LEASEHOLD_PIECE_SECONDS:-600}
records=target/long
mkdir -p "$records"

# The amounts of all pieces of run $1.
so_far() {
    awk '{ sum += $3 } END { printf "%.1f", sum }' "$records/$1" 2>/dev/null || echo 0.0
}

is_less() {
    awk -v one="$1" -v other="$2" 'BEGIN { exit !(one < other) }'
}

# Each prints the amount of a piece whose output is in $log, and nothing else.
hours() {
    scripts/simulate.sh "$piece" >"$log" 2>&1 || return
    sed -nE 's/^simulation: (.*[^0-9.])?([0-9.]+) hours.*/\2/p' "$log" | tail -n 1
}

fuzz() {
    local targets
    targets=$(sed -n '/^\[\[bin\]\]/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml)
    # The corpus stays beneath fuzz/corpus, so that each piece begins where the last one ended. Without a
    # sanitizer it is several times as fast; CI runs it with one.
    # shellcheck disable=SC2086
    FUZZ_SANITIZER=none fuzz/run.sh $((piece / $(wc -w <<<"$targets") + 1)) $targets >"$log" 2>&1 || return
    awk '/^== / { sum += last; last = 0 }
        match($0, /^#[0-9]+/) { last = substr($0, 2, RLENGTH - 1) }
        END { printf "%d\n", sum + last }' "$log"
}

soak() {
    local minutes=$(((piece + 59) / 60))
    scripts/soak.sh "$minutes" >"$log" 2>&1 || return
    echo "$minutes"
}

case ${1:-} in
'')
    for run in hours fuzz soak; do
        printf '%-6s %s in %d pieces\n' "$run" "$(so_far "$run")" "$(wc -l 2>/dev/null <"$records/$run" || echo 0)"
    done
    exit
    ;;
hours | fuzz | soak) ;;
*)
    sed -n 's/^#   \(scripts.*\)/usage: \1/p' "$0" >&2
    exit 2
    ;;
esac
run=$1
aim=${2:?how much: see the head of scripts/long.sh}
log=$records/$run.log
while is_less "$(so_far "$run")" "$aim"; do
    if ! amount=$("$run") || [ -z "$amount" ]; then
        tail -n 60 "$log" >&2
        printf '== FAILED: %s; the whole piece is in %s\n' "$run" "$log" >&2
        exit 1
    fi
    printf '%s %s %s %s\n' "$(date -u +%FT%TZ)" "$(git rev-parse --short HEAD)" "$amount" \
        "$(grep -oE 'seeds [0-9]+\.\.|LEASEHOLD_SOAK_SEED=[0-9]+' "$log" | head -n 1)" >>"$records/$run"
    printf '%s: %s of %s\n' "$run" "$(so_far "$run")" "$aim"
done
