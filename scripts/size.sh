#!/bin/bash
# Weighs what the library adds to a program: kB over a program of tokio alone, stripped, in the profiles of
# benches/size/Cargo.toml, with the default features and with Cluster and Sentinel. Counts what a default build
# compiles: lines of code of the library and its codec, and files of the lock itself, src/machine and src/extra. Fails where a figure is more than 0.5
# percent above the one recorded in benches/size.txt, in the profile `release` more than 1 percent: there, rustc cuts the
# library into 16 parts, and where it cuts moves the size by half a percent. A record should only fall: the commit that
# raises one says why.
#   scripts/size.sh            compares
#   scripts/size.sh --update   records
#   scripts/size.sh --record   records, and what redis-rs adds as well, by the version in benches/size/Cargo.lock
# Sizes depend on the compiler: with another one than that of the record, it only warns of them.
set -euo pipefail
cd "$(dirname "$0")/.."

record=benches/size.txt
manifest=benches/size/Cargo.toml
target=${CARGO_TARGET_DIR:-$PWD/target}/size

case "${1:-}" in
'' | --update | --record) mode=${1:-} ;;
*)
    echo "usage: scripts/size.sh [--update | --record]" >&2
    exit 2
    ;;
esac

# Texts of panics name files: their length is to be the same wherever this runs.
export RUSTFLAGS="--remap-path-prefix=$PWD=/leasehold --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
compiler=$(rustc -vV | sed -n 's/^rustc \([^ ]*\).*/\1/p; s/^host: //p' | paste -sd' ')
weighed=$(mktemp -d)
trap 'rm -rf "$weighed"' EXIT

# build PROFILE FEATURES: what cargo says of it, as JSON.
build() {
    cargo build --quiet --locked --manifest-path "$manifest" --target-dir "$target" --profile "$1" --features "$2" \
        --message-format=json
}

bytes() {
    build "$@" >"$weighed/messages"
    wc -c <"$target/$1/program"
}

# over PROFILE FEATURES NAME: a row with what the features add to $alone.
over() {
    local bytes
    bytes=$(bytes "$1" "$2")
    awk -v name="$1-$3" -v more=$((bytes - alone)) 'BEGIN { printf "%-20s %10.1f\n", name, more / 1000 }'
}

# The Rust files that the default build of a crate read, by rustc's own list.
files_of() {
    local unit
    unit=$(sed -n "s|.*\"filenames\":\[\"[^\"]*/deps/lib\($1-[0-9a-f]*\)\.rlib.*|\1|p" "$weighed/default")
    sed -n 's/^\([^#].*\.rs\):$/\1/p' "$target/release/deps/$unit.d"
}

scripts/lines.py --check
{
    echo "# kB over tokio alone, and what a default build compiles: scripts/size.sh --update"
    echo "# rustc $compiler"
    if [ "$mode" = --record ]; then
        sed -n '/^name = "redis"$/{n;s/version = "\(.*\)"/# redis-rs \1/p}' benches/size/Cargo.lock
    else
        grep '^# redis-rs ' "$record"
    fi
    for profile in release unit small; do
        alone=$(bytes "$profile" "")
        over "$profile" leasehold default
        if [ "$profile" = release ]; then
            cp "$weighed/messages" "$weighed/default"
            over release leasehold/cluster,leasehold/sentinel moving
        fi
        if [ "$mode" = --record ]; then
            over "$profile" redis redis-rs
        else
            grep "^$profile-redis-rs " "$record"
        fi
    done
    files_of leasehold >"$weighed/files"
    files_of leasehold_resp >>"$weighed/files"
    printf '%-20s %10d\n' lines "$(xargs scripts/lines.py <"$weighed/files")"
    printf '%-20s %10d\n' lock-files "$(grep -cE "src/(machine|extra)/" "$weighed/files")"
} >"$weighed/now"

if [ -n "$mode" ]; then
    cp "$weighed/now" "$record"
    cat "$record"
    exit
fi

awk '
    /^# rustc/ { if (FNR == NR) { recorded_by = substr($0, 3) } else { weighed_by = substr($0, 3) } }
    /^#/ { next }
    FNR == NR { recorded[$1] = $2; next }
    /redis-rs/ { next }
    {
        if (!($1 in recorded)) { print $1 ": not recorded"; bad = 1; next }
        percent = 100 * ($2 - recorded[$1]) / recorded[$1]
        peer = $1
        sub(/-(default|moving)$/, "-redis-rs", peer)
        share = peer != $1 ? sprintf(", %.2f of redis-rs", $2 / recorded[peer]) : ""
        printf "%-20s %10s, recorded %10s: %+.2f percent%s\n", $1, $2, recorded[$1], percent, share
        percent_max = $1 ~ /^release-/ ? 1 : 0.5
        if (percent < -percent_max) { fallen = 1 }
        # The compiler has no part in how many lines and files there are.
        if (percent > percent_max && (recorded_by == weighed_by || $1 !~ /-(default|moving)$/)) { bad = 1 }
    }
    END {
        if (recorded_by != weighed_by) {
            print "kB are not judged: recorded by " recorded_by ", weighed by " weighed_by
        }
        if (fallen) { print "less than recorded: record it, so that it stays: scripts/size.sh --update" }
        if (bad) {
            print "too far above the record; if that is meant, record it and say why:"
            print "scripts/size.sh --update"
            exit 1
        }
    }
' "$record" "$weighed/now"
