#!/bin/bash
# Runs a test program, as a runner of cargo's: scripts/again.sh PROGRAM [ARGUMENTS]
#
# A test that fails is run once more, alone. Tests on real servers share two cores in CI, and some of
# them meet a stall there that they do not meet elsewhere. A test that passes the second time is
# named in a line "UNSTEADY", for somebody to look into (tests/unsteady.md); one that fails twice fails the program, and
# so do more than three that fail at all.
set -uo pipefail

program=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$program" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" -ne 0 ] || exit 0

# The last list of failures alone: the one before has what the tests printed.
mapfile -t failed < <(awk '/^failures:$/ { n = 0 } /^    [^ ]+$/ { name[n++] = $1 }
    END { for (i = 0; i < n; i++) print name[i] }' "$log")
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt 3 ]; then
    exit "$status"
fi
for name in "${failed[@]}"; do
    "$program" --exact --include-ignored "$name" || exit
    printf '=== UNSTEADY: %s failed, and passed alone\n' "$name"
done
