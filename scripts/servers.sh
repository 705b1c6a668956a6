#!/bin/bash
# Tries the library on each server that scripts/server.sh gets, and on the redis-server in PATH, and
# fails where a test does, or where the table of docs/servers.md says something else than what was
# seen.
#   scripts/servers.sh             that
#   scripts/servers.sh --write     writes the table
# LEASEHOLD_TESTED is the path of what all tests said on the redis-server in PATH, which may be yet to come: these are not
# run again then.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is sorted has the same order everywhere.
export LC_ALL=C
page=docs/servers.md
columns=(single Cluster Sentinel Redlock TLS ACL wake-up shares elections "beside locks" "no scripts" doctor)
# Modules of the test program `it`, and of `cli`.
declare -A modules=(
    [single]="lock lease scripts lock_all lock_any"
    [Cluster]="cluster"
    [Sentinel]="sentinel"
    [Redlock]="redlock redlock_faults"
    [TLS]="tls"
    [ACL]="acl"
    [wake-up]="waiting"
    [shares]="sharing"
    [elections]="elect taking"
    ["beside locks"]="limit once idempotent latch barrier register primitives"
    ["no scripts"]="scriptless"
    [doctor]="doctor"
)
# Here, these have the rights of docs/acl.md alone: with one less, they fail. Of the tests in them, some are about another user.
least_rights=redis-8
are_of_others='::(forged|harness)::'
declare -A with_least_rights
for module in cluster lease lock lock_all loss redlock replicas sentinel waiting; do
    with_least_rights["$least_rights $module"]=1
done
modules_of() {
    echo "${modules[$2]}"
    [ "$1 $2" != "$least_rights ACL" ] || echo loss replicas
}
program_of() {
    case $1 in doctor) echo cli ;; *) echo it ;; esac
}
# What a server has no part in, and why.
declare -A left_out=(
    ["system no scripts"]="it does not compare in SET"
    ["redis-6.2 no scripts"]="it does not compare in SET"
    ["valkey-8 no scripts"]="it does not compare in SET"
    ["valkey-9 TLS"]="its package is built without it"
    ["redis-5 Cluster"]="it has no client tracking, by which a test is told of a lost key"
    ["redis-5 Sentinel"]="its Sentinels have no passwords for one another, which a test gives them"
    ["redis-5 TLS"]="it has none"
    ["redis-5 ACL"]="it has no users"
    ["redis-5 wake-up"]="it has no client tracking: waiters poll"
    ["redis-5 elections"]="it has no client tracking, by which a leader or holder is told of its end"
    ["redis-5 no scripts"]="it does not compare in SET"
    ["redis-5 doctor"]="it speaks RESP2, of which the doctor warns in every report"
)

write=
case "${1:-}" in
'') ;;
--write) write=yes ;;
*)
    echo "usage: scripts/servers.sh [--write]" >&2
    exit 2
    ;;
esac

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

scripts/setup.sh
names=(system)
paths=("$(command -v redis-server)")
while read -r name _; do
    # Not in the declaration: its failure has to end this.
    path=$(scripts/server.sh "$name")
    names+=("$name")
    paths+=("$path")
done < <(scripts/server.sh --list)

declare -A executables
while IFS=' ' read -r program executable; do
    executables[$program]=$executable
done < <(cargo test --workspace --locked --all-features --test it --test cli --no-run \
    --message-format=json |
    sed -n 's/.*"kind":\["test"\].*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p')
[ "${#executables[@]}" -eq 2 ]

# Seconds within which a module's tests are over, also on a slow machine.
LIMIT=900

# run EXECUTABLE RIGHTS TEST..
run() {
    local executable=$1
    export LEASEHOLD_TEST_ACL=$2
    shift 2
    # A server that it left behind would keep the others waiting.
    timeout "$LIMIT" scripts/again.sh "$executable" --exact "$@" 9>&-
}

# try_module NAME MODULE: all of its tests, of which there is one at least.
try_module() {
    local executable=${executables[$(program_of "$2")]} all tests others=()
    mapfile -t all < <("$executable" --list | sed -n "s/^\($2::.*\): test\$/\1/p")
    tests=("${all[@]}")
    if [ -n "${with_least_rights[$1 $2]:-}" ]; then
        mapfile -t tests < <(printf '%s\n' "${all[@]}" | grep -vE "$are_of_others")
        mapfile -t others < <(printf '%s\n' "${all[@]}" | grep -E "$are_of_others")
    fi
    [ "${#all[@]}" -gt 0 ] &&
        run "$executable" "${with_least_rights[$1 $2]:-0}" "${tests[@]}" &&
        { [ "${#others[@]}" -eq 0 ] || run "$executable" 0 "${others[@]}"; }
}

# What LEASEHOLD_TESTED says of the modules of each column.
look_up() {
    local name=$1 column module failed=0
    until [ -e "$LEASEHOLD_TESTED" ]; do sleep 1; done
    for column in "${columns[@]}"; do
        [ -z "${left_out[$name $column]:-}" ] || continue
        for module in ${modules[$column]}; do
            # "test lock::a_name .. ok", and what a test says before its end stands in a line between.
            grep -E "^test $module::.* ok\$|^NOT TRIED .*: $module::" "$LEASEHOLD_TESTED" || {
                echo "error: no test of $module passed"
                failed=1
            }
        done >"$logs/$name $column" 2>&1
        echo "test result: ok. $(grep -c '^test ' "$logs/$name $column") passed" >>"$logs/$name $column"
    done
    return $failed
}

# try NAME PATH: all columns, one after the other, each to a log of its own.
try() {
    local name=$1 column failed=0
    if [ "$name" = system ] && [ -n "${LEASEHOLD_TESTED:-}" ]; then
        look_up "$name"
        return
    fi
    export LEASEHOLD_TEST_SERVER=$2
    for column in "${columns[@]}"; do
        [ -z "${left_out[$name $column]:-}" ] || continue
        local module
        # Nodes of two clusters at a time are taken for dead where they are only slow.
        exec 9>"$logs/cluster"
        case $column in Cluster | Sentinel | TLS | shares) flock 9 ;; esac
        for module in $(modules_of "$name" "$column"); do
            try_module "$name" "$module" || {
                echo "error: $module ended with $? (124: not done in $LIMIT s)"
                failed=1
            }
        done >"$logs/$name $column" 2>&1
        exec 9>&-
    done
    return $failed
}

# Three servers at a time: tests wait for most of their time.
failed=0
under_way=0
for at in "${!names[@]}"; do
    if [ "$under_way" -eq 3 ]; then
        wait -n || failed=1
        under_way=$((under_way - 1))
    fi
    try "${names[at]}" "${paths[at]}" &
    under_way=$((under_way + 1))
done
while [ "$under_way" -gt 0 ]; do
    wait -n || failed=1
    under_way=$((under_way - 1))
done

version_of() {
    "$1" --version | sed -n 's/^\([^ ]*\) .* v=\([^ ]*\).*/\1 \2/p'
}

# What was seen, as the page has it.
table() {
    local at column cell footnotes=()
    echo "| Server | $(printf '%s | ' "${columns[@]}")" | sed 's/ $//'
    echo "|---|$(printf '%s|' "${columns[@]//*/:-:}")"
    for at in "${!names[@]}"; do
        local server row
        server=$(version_of "${paths[at]}")
        row="| $server |"
        for column in "${columns[@]}"; do
            local why=${left_out[${names[at]} $column]:-} log="$logs/${names[at]} $column"
            if [ -n "$why" ]; then
                cell="–"
                footnotes+=("- $server, $column: $why.")
            else
                grep -q '^test result: ok\. [1-9]' "$log"
                cell=yes
            fi
            row+=" $cell |"
        done
        echo "$row"
        # "NOT TRIED on Redis 7.0.15, which lacks atomic slot migration: cluster::atomic::a_lease_.."
        local lacking
        while read -r lacking; do
            footnotes+=("- $server lacks ${lacking%%: *}: \`${lacking##*: }\` has nothing to try.")
        done < <(cat "$logs/${names[at]} "* | sed -n 's/^.*NOT TRIED on [^,]*, which lacks //p' | sort -u)
    done
    printf '\nNot tried:\n\n'
    printf '%s\n' "${footnotes[@]}"
}

for log in "$logs"/*\ *; do
    printf '== %s\n' "${log##*/}"
    if grep -qE '^error|UNSTEADY' "$log"; then
        grep -E -A20 'panicked at|running for over|^error|UNSTEADY' "$log" | head -n 200
    fi
    grep -E '^test result|NOT TRIED' "$log" || true
done
[ "$failed" -eq 0 ] || { echo "servers: tests failed" >&2 && exit 1; }

begin='<!-- by scripts/servers.sh -->'
table >"$logs/table"
{
    sed "\|^$begin\$|q" "$page"
    cat "$logs/table"
} >"$logs/page"
if [ -n "$write" ]; then
    cp "$logs/page" "$page"
elif ! diff "$page" "$logs/page"; then
    echo "servers: $page says something else (scripts/servers.sh --write)" >&2
    exit 1
fi
