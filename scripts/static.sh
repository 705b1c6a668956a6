#!/bin/sh
# Builds the command as one file that needs no library of the system's (musl), for images, other distributions and
# releases; prints its path. The list of its dependencies is in the file, where `cargo audit bin` and scanners of
# images find it (cargo-auditable), unless that cannot be installed.
#   scripts/static.sh             for this machine's processor
#   scripts/static.sh --archive   and packs it as cargo-binstall and releases want it, with its checksum
set -eu
cd "$(dirname "$0")/.."

# shellcheck disable=SC2034
script=static
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

# More than it takes to build on two cores; --debug, because it runs for a second.
INSTALL_SECONDS_MAX=600

case "${1:-}" in
'' | --archive) ;;
*)
    echo "usage: scripts/static.sh [--archive]" >&2
    exit 2
    ;;
esac

target=$(uname -m)-unknown-linux-musl
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
# The C of ring, for TLS.
command -v musl-gcc >/dev/null || install_with_apt musl-tools >&2
rustup target list --installed | grep -qxF "$target" || rustup target add "$target" >&2

build=build
if command -v cargo-auditable >/dev/null ||
    timeout "$INSTALL_SECONDS_MAX" cargo install cargo-auditable --locked --debug --version '^0.7' >&2; then
    build="auditable build"
else
    complain "cargo-auditable cannot be installed: the file has no list of its dependencies"
fi
# shellcheck disable=SC2086
cargo $build --profile dist --locked --package leasehold-cli --target "$target" >&2
program=$target_dir/$target/dist/leasehold

if [ "${1:-}" != --archive ]; then
    echo "$program"
    exit
fi
# Beside Cargo.toml's [package.metadata.binstall], which says how it is called and what is in it.
name=leasehold-$target
rm -rf "$target_dir/static"
mkdir -p "$target_dir/static/$name"
cp "$program" LICENSE-APACHE LICENSE-MIT "$target_dir/static/$name"
cd "$target_dir/static"
tar -czf "$name.tar.gz" "$name"
sha256sum "$name.tar.gz" >"$name.tar.gz.sha256"
echo "$target_dir/static/$name.tar.gz"
