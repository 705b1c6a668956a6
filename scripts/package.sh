#!/bin/bash
# Packs the crates as they would be published, and checks that each compiles from what was packed, with the default
# features and with all; and what is in them: all that they need, both licences, no source that no build reads, and nothing
# large. (That crates.io would take them is for scripts/release.sh --dry-run.)
set -euo pipefail
cd "$(dirname "$0")/.."

# The largest is the library. A build with all features reads 413 kB of it, of which comments, the pages of docs.rs among
# them, are 150; scripts are 24, what else docs.rs shows 35, and the lock file, that cargo packs always, 8. (7 kB more since
# 2026-11-28: what eight reviews from outside found is mended; 2 more since 2026-11-30: releases go out together, and a failed
# extension keeps its answers; 5 less since then: examples that need many crates are a crate of their own.)
BYTES_MAX=528600

target_dir=${CARGO_TARGET_DIR:-$PWD/target}
# A directory of its own: to cargo a version that was packed once never changes.
packing=$(mktemp -d)
trap 'rm -rf "$packing"' EXIT
# What was packed, side by side; always in one place, so that what was compiled of dependencies is of use the next time.
packed=$target_dir/packed
crates=(leasehold-resp leasehold leasehold-cli)

archive_of() {
    ls "$packing/package/$1"-[0-9]*.crate
}

# What the package of crate $1 has to have beside what is compiled, and what it must not have.
check_contents() {
    local crate=$1 archive listed file
    shift
    archive=$(archive_of "$crate")
    listed=$(tar -tzf "$archive" | cut -d/ -f2-)
    for file in LICENSE-MIT LICENSE-APACHE "$@"; do
        if ! grep -qxF "$file" <<<"$listed"; then
            echo "package: $crate lacks $file" >&2
            return 1
        fi
    done
    if grep -E '^(\.ci|\.github|benches|examples|fuzz|target|tests)/|\.(crate|log|profraw|rdb|aof)$' <<<"$listed"; then
        echo "package: $crate has what nobody needs who depends on it" >&2
        return 1
    fi
    # Links are of use where they lead alone.
    if tar -tvzf "$archive" | grep '^l'; then
        echo "package: $crate has links in the place of files" >&2
        return 1
    fi
    local bytes
    bytes=$(wc -c <"$archive")
    echo "package: $crate: $(wc -l <<<"$listed") files, $bytes bytes"
    if [ "$bytes" -gt "$BYTES_MAX" ]; then
        echo "package: more than $BYTES_MAX bytes" >&2
        return 1
    fi
}

# By rustc's own lists. What is for tests alone is to be left out by `include` in Cargo.toml.
check_reading() {
    local crate=$1 unread
    unread=$(comm -23 <(cd "$packed" && find "$crate/src" -name '*.rs' | sort) \
        <(cat "$target_dir/debug/deps/${crate//-/_}"-*.d | sed -n "s|^\($crate/src/.*\.rs\):\$|\1|p" | sort -u))
    if [ -n "$unread" ]; then
        printf 'package: no build reads\n%s\n' "$unread" >&2
        return 1
    fi
}

# What is not committed is packed as well, so that it can be tried before.
options=(--locked --allow-dirty --quiet --no-verify)
for crate in "${crates[@]}"; do
    options+=(--package "$crate")
done
CARGO_TARGET_DIR=$packing cargo package "${options[@]}" 2>"$packing/log" || { cat "$packing/log" >&2 && exit 1; }

rm -rf "$packed"
mkdir -p "$packed"
for crate in "${crates[@]}"; do
    mkdir "$packed/$crate"
    # With new times: to cargo files with old ones have not changed.
    tar -xzmf "$(archive_of "$crate")" -C "$packed/$crate" --strip-components=1
done
cp Cargo.lock "$packed"
{
    echo '[workspace]'
    echo 'resolver = "3"'
    echo "members = [$(printf '"%s", ' "${crates[@]}")]"
    echo '[patch.crates-io]'
    printf '%s = { path = "%s" }\n' leasehold-resp leasehold-resp leasehold leasehold
} >"$packed/Cargo.toml"
# The command has its own features of the library on. What stands in a feature's place is read with others, or none.
(cd "$packed" &&
    CARGO_TARGET_DIR=$target_dir cargo check --quiet --package leasehold &&
    CARGO_TARGET_DIR=$target_dir cargo check --quiet --package leasehold --features examine &&
    CARGO_TARGET_DIR=$target_dir cargo check --quiet --workspace --all-features)

check_contents leasehold-resp README.md src/lib.rs
check_contents leasehold-cli src/main.rs
check_contents leasehold README.md src/guide.md docs/guarantees.md \
    $(git ls-files 'scripts/*.lua' 'scripts/parts/*.lua')
check_reading leasehold-resp
check_reading leasehold
