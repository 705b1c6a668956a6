#!/bin/bash
# Releases what is checked out, as RELEASING.md says.
#   scripts/release.sh --check      only whether versions, lock files, CHANGELOG.md and tags fit together
#   scripts/release.sh --dry-run    and packs, builds and checks each crate as crates.io would, and says what is left to do
#   scripts/release.sh              and then publishes, which cannot be undone, and tags. It asks first
set -euo pipefail
cd "$(dirname "$0")/.."

# In the order in which they depend on each other.
CRATES=(leasehold-resp leasehold leasehold-cli)
packages=()
for crate in "${CRATES[@]}"; do
    packages+=(--package "$crate")
done

mode=${1:-}
case $mode in
'' | --check | --dry-run) ;;
*)
    echo "usage: scripts/release.sh [--check | --dry-run]" >&2
    exit 2
    ;;
esac

failed=
# What is wrong at any time.
wrong() {
    echo "release: $*" >&2
    failed=yes
}
# What has to be done before a release, and may be left until then.
left() {
    if [ -z "$mode" ]; then
        wrong "$@"
    else
        echo "release: still to be done: $*"
    fi
}

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
tag=v$version

# All crates have one version, and ask for it of one another.
while read -r file asked; do
    [ "$asked" = "$version" ] || wrong "$file asks for $asked of a crate that is $version"
done < <(grep -HE '^leasehold(-resp)? = .*version = ' Cargo.toml cli/Cargo.toml |
    sed 's/^\([^:]*\):.* version = "\([^"]*\)".*/\1 \2/')

# So do all lock files that have it, those of the programs beside the workspace too; and the example has the image of this
# version.
while read -r file; do
    locked=$(sed -n '/^name = "leasehold"$/{n;s/^version = "\(.*\)"$/\1/p;}' "$file")
    [ "$locked" = "$version" ] ||
        wrong "$file has leasehold '$locked', and this is $version: cargo metadata --manifest-path ${file%lock}toml"
done < <(git ls-files '*Cargo.lock' | xargs grep -lx 'name = "leasehold"')
while read -r pinned; do
    [ "$pinned" = "$version" ] || wrong "examples/kubernetes.yaml has the image of $pinned, and this is $version"
done < <(sed -n 's|^.*image: ghcr.io/leasehold/leasehold:\([^ ]*\).*|\1|p' examples/kubernetes.yaml)

# The newest section of the CHANGELOG is this version's.
newest=$(sed -n 's/^## \[\([^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
[ "$newest" = "$version" ] || [ "$newest" = Unreleased ] || wrong "CHANGELOG.md begins with $newest, and this is $version"
grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md || left "CHANGELOG.md: '## [$version] - DATE' at the head of the section"
grep -qE '^### ' <(sed -n "/^## \[$newest\]/,/^## /p" CHANGELOG.md) || wrong "CHANGELOG.md says nothing of $newest"

if git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null; then
    left "$tag is there already: raise version in Cargo.toml"
fi
[ -z "$(git status --porcelain)" ] || left "commit what is not committed"
! grep -q 'Not on crates.io yet' README.md || left "README.md, Install: by 'cargo add leasehold', and badges of crates.io and docs.rs"
! grep -q 'src/guide\.md' README.md ||
    left "README.md links src/guide.md: to https://docs.rs/leasehold/latest/leasehold/guide/ instead"
before=$(git grep -lE '^(//! )?leasehold = \{ git = |version has been released yet' -- docs src | paste -sd' ')
[ -z "$before" ] || left "what is said of the time before the first release, or manifests by git, in $before"
[ -z "$failed" ] || exit 1
[ "$mode" != --check ] || exit 0

scripts/semver.sh || [ $? -eq 3 ] || exit 1
# One command for all: a crate finds those that it depends on beside it, as they are not at crates.io yet.
if [ -n "$mode" ]; then
    cargo publish --dry-run --allow-dirty --locked "${packages[@]}"
    echo "release: $version can be released: then"
    echo "    cargo publish --locked ${packages[*]}"
    echo "    git tag --sign $tag --message 'Leasehold $version'"
    echo "    git push origin $tag     # .github/workflows/release.yml adds the programs and the image"
    exit
fi
# What is published is what everybody can read.
git fetch --quiet origin main
if [ "$(git rev-parse HEAD)" != "$(git rev-parse FETCH_HEAD)" ]; then
    echo "release: HEAD is not origin's main: push it, or check main out" >&2
    exit 1
fi
cargo publish --dry-run --locked "${packages[@]}"
read -rp "Publish ${CRATES[*]} $version, and tag $tag? (yes/no) " answer
[ "$answer" = yes ] || exit 1
# The tag stands for what is published, so it comes last.
if ! cargo publish --locked "${packages[@]}"; then
    echo "release: not all of it is published, and nothing is tagged: RELEASING.md, 'If publishing ends half-way'" >&2
    exit 1
fi
git tag --sign "$tag" --message "Leasehold $version"
echo "release: push the tag: git push origin $tag"
