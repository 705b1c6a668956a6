#!/bin/bash
# Checks that the crates compile with the oldest Rust that Cargo.toml promises (rust-version), and with the oldest versions of
# their dependencies that it allows: by rustup's compiler of that version, else by Debian's, unpacked under target/ and not
# installed. Where there is neither, the dependencies are tried with the Rust that is here, and this says so; in GitHub's CI
# it fails then. That what Cargo.lock names needs no newer Rust is taken from what it declares.
# What only tests need is left out: nobody else has to get along with it.
set -euo pipefail
cd "$(dirname "$0")/.."

msrv=$(sed -n 's/^rust-version *= *"\([0-9.]*\)"/\1/p' Cargo.toml)
target_dir=${CARGO_TARGET_DIR:-$PWD/target}/oldest
downloaded=$target_dir/debian-$msrv
log=$target_dir/debian.log
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# In a copy of the tree, by this compiler.
check_with() (
    echo "oldest: $("$1" --version)"
    git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$copy"
    cd "$copy"
    local manifest
    for manifest in Cargo.toml resp/Cargo.toml cli/Cargo.toml; do
        awk '/^\[/ { is_for_tests = /dev-dependencies\]$/ } !is_for_tests' "$manifest" >manifest
        mv manifest "$manifest"
    done
    # Nor do the tests' helpers and the examples have to.
    sed -i 's|, "tests/support"||; s|"checker", ||; s|"examples/services", ||' Cargo.toml
    cargo +nightly update --quiet -Z direct-minimal-versions
    local crates
    # The command has its own features of the library on.
    for crates in "--package leasehold" "--workspace --all-features"; do
        # shellcheck disable=SC2086
        RUSTC=$1 CARGO_TARGET_DIR=$target_dir cargo check $crates --lib --bins --locked --quiet
    done
    cargo tree --workspace --all-features --depth 1 --prefix none | grep -v "^leasehold" | sort -u
)

rustc_of_rustup() {
    command -v rustup >/dev/null || return 1
    local toolchain
    toolchain=$(rustup toolchain list | grep -oE "^$msrv(\.[0-9]+)?-[^ ]+" | head -n 1) || return 1
    rustup which --toolchain "$toolchain" rustc
}

# Downloads packages in the MSRV's version (or in any, where $1 is "any") and unpacks them.
unpack() {
    local wanted=$1 package
    shift
    for package in "$@"; do
        [ "$wanted" = any ] || package="$package=$msrv.*"
        (cd "$downloaded" && apt-get -q -o APT::Sandbox::User=root download "$package") || return 1
    done
    for package in "$downloaded"/*.deb; do
        dpkg -x "$package" "$downloaded/root" && rm "$package" || return 1
    done
}

# What librustc_driver loads. All but the C library, which must be the system's own.
libraries() {
    apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "libstd-rust$1-$msrv" |
        grep -oE '^lib[^ <>:]+' | grep -vE '^(libc6|libgcc-s1|libstdc\+\+6|libstd-rust.*)$' | sort -u
}

# Debian has a second, newer line of packages for its browsers: -web. Either will do.
rustc_of_debian() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    local rustc=$downloaded/rustc suffix
    if [ -x "$rustc" ]; then
        echo "$rustc"
        return
    fi
    for suffix in "" -web; do
        rm -rf "$downloaded"
        mkdir -p "$downloaded/root"
        # shellcheck disable=SC2046
        unpack exact "rustc$suffix" "libstd-rust$suffix-dev" "libstd-rust$suffix-$msrv" >>"$log" 2>&1 &&
            unpack any $(libraries "$suffix") >>"$log" 2>&1 || continue
        # A wrapper, because cargo itself must not load these libraries.
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
            "'$(dirname "$(find "$downloaded/root" -name 'librustc_driver*' | head -n 1)")'" \
            "'$downloaded/root/usr/bin/rustc'" >"$rustc.new"
        chmod +x "$rustc.new"
        if "$rustc.new" --version >>"$log" 2>&1; then
            # The name that is looked for comes last: it stands for a complete download.
            mv "$rustc.new" "$rustc"
            echo "$rustc"
            return
        fi
    done
    return 1
}

check_declarations() {
    local newest
    newest=$(
        {
            echo "$msrv"
            cargo metadata --format-version 1 --locked | grep -oE '"rust_version":"[0-9.]+"' | cut -d'"' -f4
        } | sort -V | tail -n 1
    )
    # 1.85 and 1.85.0 are the same.
    if [ "${newest%.0}" != "${msrv%.0}" ]; then
        echo "oldest: a dependency in Cargo.lock declares rust-version $newest" >&2
        return 1
    fi
}

mkdir -p "$target_dir"
rustup toolchain list | grep '^nightly' >/dev/null ||
    rustup toolchain install nightly --profile minimal
check_declarations
if rustc=$(rustc_of_rustup) || rustc=$(rustc_of_debian); then
    check_with "$rustc"
elif [ -n "${GITHUB_ACTIONS:-}" ]; then
    echo "oldest: no Rust $msrv here: rustup toolchain install $msrv" >&2
    exit 1
else
    echo "oldest: no Rust $msrv here (rustup toolchain install $msrv gives one)"
    check_with "$(rustup which rustc)"
    cargo clippy --workspace --lib --bins --all-features --locked -- -D clippy::incompatible_msrv
fi
