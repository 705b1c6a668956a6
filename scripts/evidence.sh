#!/bin/bash
# Tries the library in every way there is, stops at the first that finds something, and else writes
# what was tried to docs/evidence.md.
#   scripts/evidence.sh        in less than ten minutes, once all is compiled
#   scripts/evidence.sh 1h     for about so long: 30m, 2h
set -euo pipefail
cd "$(dirname "$0")/.."

evidence=docs/evidence.md
longer='## Replies that go wrong'
length=${1:-6m}
case $length in
*m) unit=60 ;;
*h) unit=3600 ;;
*) unit= ;;
esac
count=${length%[mh]}
case $unit:$count in
: | *: | :* | *:0* | *:*[!0-9]*)
    echo "usage: scripts/evidence.sh [MINUTESm | HOURSh]" >&2
    exit 2
    ;;
esac
seconds=$((count * unit))

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# try NAME COMMAND...: what the command says goes to a file, and its end here if it fails.
try() {
    local name=$1 started=$SECONDS
    shift
    printf '== %s\n' "$name"
    if ! "$@" >"$logs/$name" 2>&1; then
        tail -n 40 "$logs/$name" >&2
        printf '== FAILED: %s\n' "$name" >&2
        exit 1
    fi
    printf '== %s: %d s\n' "$name" $((SECONDS - started))
}

# The last number in front of some words in a file.
number() {
    sed -nE "s/(^|.*[^0-9.])([0-9.]+) $2.*/\2/p" "$logs/$1" | tail -n 1
}

targets=$(sed -n '/^\[\[bin\]\]/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml)
soak_minutes=$((seconds / 4 / 60))
[ "$soak_minutes" -gt 0 ] || soak_minutes=1
try simulation scripts/simulate.sh $((seconds * 2 / 5))
try mutants scripts/mutants.sh
try model scripts/units.sh --nocapture policy::model
# Without a sanitizer it is several times as fast; CI runs it with one.
# shellcheck disable=SC2086
try fuzzing env FUZZ_SANITIZER=none \
    fuzz/run.sh $((seconds / 2 / $(wc -w <<<"$targets"))) $targets
try soak scripts/soak.sh "$soak_minutes"

simulation=$(grep '^simulation: ' "$logs/simulation")
states=$(grep -oE '[0-9]+ states' "$logs/model" | awk '{ sum += $1 } END { print sum }')
executions=$(awk '/^== .*executions: / { sum += $NF } END { printf "%d", sum }' "$logs/fuzzing")
faults=$(awk '$2 == "fault:" { sum += $1 } END { print sum + 0 }' "$logs/soak")

{
    cat <<END
# What was tried

Made by \`scripts/evidence.sh${*:+ $*}\` on $(date -u +%F), at $(git rev-parse --short HEAD), in $((SECONDS / 60)) minutes on
$(nproc) cores of an $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr), $("${LEASEHOLD_TEST_SERVER:-redis-server}" --version | sed -n 's/^\([^ ]*\) .* v=\([^ ]*\).*/\1 \2/p'), $(rustc --version | cut -d' ' -f1-2). Nothing was found.

| | |
|---|---:|
| Simulated time: hours | $(number simulation hours) |
| Simulated: seeds | $(number simulation 'of them') |
| Simulated: leases granted | $(number simulation grants) |
| Simulated: increments that an unfenced register lost, of the fenced none | $(number simulation increments) |
| Model: states searched | $states |
| Fuzz executions, in this run | $executions |
| Real servers: leases granted | $(number soak acquisitions) |
| Real servers: faults injected | $faults |

The command that repeats one row: \`scripts/simulate.sh\`, \`scripts/units.sh policy::model\`, \`fuzz/run.sh\`,
\`scripts/soak.sh\`.

## Known bugs, given to the library one by one

Each is a bug that a lock library has had or could have (\`src/policy/mutants.rs\`, \`src/sim/meddle.rs\`): which
checks of the simulation noticed it, in which seed. At least one of these
checks is about the promise that the bug breaks (\`src/sim/hunt.rs\`). Without the bug, the same seed is quiet. By \`scripts/mutants.sh\`.

END
    grep '^|' "$logs/mutants"
    # What takes longer than this is brought by scripts/attack.sh and failovers.sh, and kept.
    echo
    sed -n "/^$longer/,\$p" "$evidence"
} >"$logs/evidence"
[ -n "$simulation" ] && [ -n "$states" ]
mv "$logs/evidence" "$evidence"
scripts/long.sh count hours "$(number simulation hours)" $((seconds * 2 / 5))
scripts/long.sh count fuzz "$executions" $((seconds / 4))
scripts/long.sh count soak "$soak_minutes" $((soak_minutes * 60))
scripts/long.sh tell
printf '== %s, in %d s\n' "$evidence" "$SECONDS"
