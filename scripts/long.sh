#!/bin/bash
# Long runs, made of pieces: each can be stopped at any time (Ctrl-C), and goes on at the next call. What each
# piece did stands in target/long, with its date, commit and seed; a piece that was stopped counts for nothing.
#   scripts/long.sh                       says how far each run is
#   scripts/long.sh hours 10000           goes on until 10,000 hours have been simulated
#   scripts/long.sh hours 10000 60        or until 60 minutes have passed: a night, or an hour of CI
#   scripts/long.sh fuzz 10000000000      until all fuzz targets together have had this many executions
#   scripts/long.sh machine 1000000000     the same of the target that drives the machine, by itself
#   scripts/long.sh soak 240              until real servers have failed at random for 240 minutes
#   scripts/long.sh tell                  adds the pieces that are in target/long to docs/evidence.md, and the
#                                         corpus of the fuzz targets to fuzz/corpus.tar.gz
#   scripts/long.sh count RUN AMOUNT SECONDS [SEED]    notes a piece that ran elsewhere
# LEASEHOLD_PIECE_SECONDS: how long a piece takes, 600 unless told.
set -euo pipefail
cd "$(dirname "$0")/.."

piece=${LEASEHOLD_PIECE_SECONDS:-600}
records=target/long
page=docs/evidence.md
targets=$(sed -n '/^\[\[bin\]\]/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml)
mkdir -p "$records"

# The amounts that docs/evidence.md has of run $1, and those of the pieces since.
so_far() {
    local row
    row=$(sed -n "s/^| \`$1\` | \([0-9.]*\) |.*/\1/p" "$page")
    { cat "$records/$1" 2>/dev/null || true; } |
        awk -v sum="${row:-0}" -v form="$([ "$1" = hours ] && echo %.1f || echo %.0f)" '{ sum += $3 } END { printf form, sum }'
}

is_less() {
    awk -v one="$1" -v other="$2" 'BEGIN { exit !(one < other) }'
}

# note RUN AMOUNT SECONDS SEED
note() {
    printf '%s %s %s %s %s\n' "$(date -u +%F)" "$(git rev-parse --short HEAD)" "$2" "$3" "${4:--}" >>"$records/$1"
}

# Each prints the amount of a piece whose output is in $log, and nothing else.
hours() {
    scripts/simulate.sh "$piece" >"$log" 2>&1 || return
    sed -nE 's/^simulation: (.*[^0-9.])?([0-9.]+) hours.*/\2/p' "$log" | tail -n 1
}

fuzz() {
    local targets=${1:-$targets} each
    # Two at a time; each target with inputs of any length for an eighth of the time, with short ones for as long,
    # and with very short ones, which are ten times as fast as the first, in two halves: after an odd number of
    # targets, a core would be idle. Without a sanitizer all is several times as fast again; CI runs it with one.
    each=$((2 * piece / (8 * $(wc -w <<<"$targets")) + 1))
    # shellcheck disable=SC2046,SC2086
    {
        FUZZ_SANITIZER=none fuzz/run.sh "$each" $targets $(printf '%s:256 ' $targets) &&
            FUZZ_SANITIZER=none fuzz/run.sh $((3 * each)) $(printf '%s:64 ' $targets $targets)
    } >"$log" 2>&1 || return
    awk '/^== .*executions: / { sum += $NF } END { printf "%.0f\n", sum }' "$log"
    # Of inputs that reach the same, one is enough.
    # shellcheck disable=SC2086
    printf '%s\n' $targets |
        xargs -P 2 -I{} cargo +nightly fuzz cmin --fuzz-dir fuzz --sanitizer none --no-trace-compares {} fuzz/corpus/{} \
            >>"$log" 2>&1
}

machine() {
    fuzz machine
}

# Packs what the next machine begins from: as few inputs as reach all the code that is reached.
pack_corpus() {
    local packed target
    packed=$(mktemp -d)
    for target in $targets; do
        mkdir -p "$packed/corpus/$target"
        cargo +nightly fuzz run --fuzz-dir fuzz --sanitizer none --no-trace-compares "$target" -- \
            -set_cover_merge=1 "$packed/corpus/$target" "fuzz/corpus/$target" >"$packed/log" 2>&1 ||
            { cat "$packed/log" >&2 && exit 1; }
    done
    tar --create --directory "$packed" --sort=name --mtime=@0 --owner=0 --group=0 corpus |
        gzip -9n >fuzz/corpus.tar.gz
    rm -r "$packed"
}

soak() {
    local minutes=$(((piece + 59) / 60))
    scripts/soak.sh "$minutes" >"$log" 2>&1 || return
    echo "$minutes"
}

# A process group of its own, which ends with this script, whatever it is doing.
run_piece() {
    set -m
    "$run" >"$records/$run.amount" &
    worker=$!
    set +m
    wait "$worker"
}

stop() {
    trap - EXIT
    if [ -n "${worker:-}" ]; then
        kill -- "-$worker" 2>/dev/null || true
        # Nothing of the piece is left when the next one begins.
        while kill -0 -- "-$worker" 2>/dev/null; do sleep 0.1; done
    fi
    printf 'stopped; the same command goes on\n' >&2
    exit 130
}

go_on() {
    local minutes=${2:-} began
    log=$records/$run.log
    trap stop INT TERM
    while is_less "$(so_far "$run")" "$1"; do
        [ -z "$minutes" ] || [ "$SECONDS" -lt $((minutes * 60)) ] || break
        began=$SECONDS
        if ! run_piece || [ ! -s "$records/$run.amount" ]; then
            tail -n 60 "$log" >&2
            printf '== FAILED: %s; the whole piece is in %s\n' "$run" "$log" >&2
            exit 1
        fi
        note "$run" "$(cat "$records/$run.amount")" $((SECONDS - began)) \
            "$(sed -nE 's/.*seeds ([0-9]+)\.\..*/\1/p; s/.*LEASEHOLD_SOAK_SEED=([0-9]+).*/\1/p' "$log" | head -n 1)"
        printf '%s: %s of %s\n' "$run" "$(so_far "$run")" "$1"
    done
}

# The row of a run with its new pieces, by whose pace it says how many hours the rest takes.
row_of() {
    awk -v run="$1" '
        FNR == NR {
            if (split($0, cell, / *\| */) > 7 && cell[2] == "`" run "`") {
                amount = cell[3]; goal = cell[4]; pieces = cell[7]; seed = cell[9]
            }
            next
        }
        { fresh += $3; seconds += $4; pieces++; last = $1 " at " $2; if ($5 != "-") seed = $5 }
        END {
            form = run == "hours" ? "%.1f" : "%.0f"
            amount += fresh
            pace = fresh * 3600 / (seconds ? seconds : 1)
            left = amount < goal && pace > 0 ? (goal - amount) / pace : 0
            printf "| `%s` | " form " | %s | " form " | %.1f | %d | %s | %s |\n",
                run, amount, goal, pace, left, pieces, last, seed
        }' "$page" "$records/$1"
}

tell() {
    local row
    for run in hours fuzz machine soak; do
        [ -s "$records/$run" ] || continue
        row=$(row_of "$run")
        awk -v run="| \`$run\` |" -v row="$row" 'index($0, run) == 1 { $0 = row } { print }' "$page" >"$records/page"
        cat "$records/page" >"$page"
        cat "$records/$run" >>"$records/$run.told"
        case $run in fuzz | machine) pack_corpus ;; esac
        rm "$records/$run"
    done
}

run=${1:-}
case $run in
'')
    for run in hours fuzz machine soak; do
        printf '%-7s %s\n' "$run" "$(so_far "$run")"
    done
    ;;
hours | fuzz | machine | soak) go_on "${2:?how much: see the head of scripts/long.sh}" "${3:-}" ;;
tell) tell ;;
count) note "$2" "$3" "$4" "${5:-}" ;;
*)
    sed -n 's/^#   \(scripts.*\)/usage: \1/p' "$0" >&2
    exit 2
    ;;
esac
