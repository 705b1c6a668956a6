#!/bin/bash
# Packs the crates as they would be published, builds them from what was packed, with the default
# features and with all, and checks what is in them: all that they need, both licences, and nothing large.
set -euo pipefail
cd "$(dirname "$0")/.."

BYTES_MAX=600000
# A directory of its own: to cargo a version that was packed once never changes, neither what it
# unpacked of it nor what it compiled.
target_dir=$(mktemp -d)
trap 'rm -rf "$target_dir"' EXIT
export CARGO_TARGET_DIR=$target_dir

version_of() {
    cargo metadata --no-deps --format-version 1 --locked |
        grep -oE "\"name\":\"$1\",\"version\":\"[^\"]+\"" | cut -d'"' -f8
}

# What the package of crate $1 has to have beside what is compiled, and what it must not have.
check_contents() {
    local crate=$1 archive listed file
    shift
    archive=$target_dir/package/$crate-$(version_of "$crate").crate
    listed=$(tar -tzf "$archive" | cut -d/ -f2-)
    for file in LICENSE-MIT LICENSE-APACHE "$@"; do
        if ! grep -qxF "$file" <<<"$listed"; then
            echo "package: $crate lacks $file" >&2
            return 1
        fi
    done
    if grep -E '^(\.ci|benches|fuzz|target|tests)/|\.(crate|log|profraw|rdb|aof)$' <<<"$listed"; then
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

# What is not committed is packed as well, so that it can be tried before.
for features in "" --all-features; do
    # shellcheck disable=SC2086
    cargo package --workspace --exclude leasehold-testing --exclude leasehold-checker --locked --allow-dirty --quiet $features
done
check_contents leasehold-resp src/lib.rs
check_contents leasehold-cli src/main.rs
check_contents leasehold README.md CHANGELOG.md src/guide.md docs/guarantees.md \
    $(git ls-files 'scripts/*.lua')
