#!/bin/bash
# Counts the instructions of the hot paths (benches/instructions.rs) under valgrind, by default and with the feature `grace`,
# and fails where a count is more than 5 percent above the one recorded in benches/instructions.txt.
#   scripts/instructions.sh            compares
#   scripts/instructions.sh --update   records
# Counts depend on the compiler: with another one than that of the record, it only warns.
set -euo pipefail
cd "$(dirname "$0")/.."

record=benches/instructions.txt
percent_max=5
target=${CARGO_TARGET_DIR:-$PWD/target}/size

case "${1:-}" in
'' | --update) mode=${1:-} ;;
*)
    echo "usage: scripts/instructions.sh [--update]" >&2
    exit 2
    ;;
esac

if ! command -v valgrind >/dev/null; then
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq valgrind
fi

compiler=$(rustc -vV | sed -n 's/^rustc \([^ ]*\).*/\1/p; s/^host: //p' | paste -sd' ')
# bench FEATURES: the program.
bench() {
    cargo build --quiet --locked --manifest-path benches/size/Cargo.toml --target-dir "$target" --profile counted \
        --bin instructions --features "$1"
    cp "$target/counted/instructions" "$counted/program-$1"
    echo "$counted/program-$1"
}
counted=$(mktemp -d)
trap 'rm -rf "$counted"' EXIT
plain=$(bench instructions)
graced=$(bench grace)

# count PROGRAM SCENARIO TURNS: its instructions a turn.
count() {
    local program=$1 name=$2 turns=$3 out=$counted/$2
    valgrind --quiet --tool=callgrind --callgrind-out-file="$out" \
        --toggle-collect='instructions::client_part*' \
        --toggle-collect='instructions::server_part*' \
        "$program" "$name" 2>"$out.log" || {
        cat "$out.log" >&2
        return 1
    }
    local total
    total=$(sed -n 's/^totals: \([0-9]*\).*/\1/p' "$out")
    if [ "${total:-0}" -eq 0 ]; then
        echo "$name: nothing was counted" >&2
        return 1
    fi
    echo $((total / turns))
}

{
    echo "# Instructions a turn: scripts/instructions.sh --update"
    echo "# rustc $compiler"
    {
        "$plain" --list | sed "s|^|$plain |"
        "$graced" --list | sed -n "/^grace-/s|^|$graced |p"
    } >"$counted/list"
    while read -r program name turns; do
        instructions=$(count "$program" "$name" "$turns")
        printf '%-20s %8d\n' "$name" "$instructions"
    done <"$counted/list"
} >"$counted/now"

if [ "$mode" = --update ]; then
    cp "$counted/now" "$record"
    cat "$record"
    exit
fi

awk -v percent_max="$percent_max" '
    /^#/ { if (FNR == NR) { recorded_by = $0 } else { counted_by = $0 }; next }
    FNR == NR { recorded[$1] = $2; next }
    {
        if (!($1 in recorded)) { print $1 ": not recorded"; bad = 1; next }
        grown = 100 * ($2 - recorded[$1]) / recorded[$1]
        printf "%-20s %8d, recorded %8d: %+.1f percent\n", $1, $2, recorded[$1], grown
        if (grown > percent_max) { bad = 1 }
    }
    END {
        if (bad && recorded_by != counted_by) {
            print "not judged: recorded by " recorded_by ", counted by " counted_by
        } else if (bad) {
            print "more than " percent_max " percent above the record; if that is meant, record it:"
            print "scripts/instructions.sh --update"
            exit 1
        }
    }
' "$record" "$counted/now"
