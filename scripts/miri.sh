#!/bin/sh
# Runs tests of the codec and of the machine under Miri, which finds undefined behaviour in whatever they run: our own code
# has no `unsafe`, and that of our dependencies is used by these two. Miri takes a thousand times as long: of the machine it
# runs tests in which commands are written, replies are read and kept, and leases come and go, and of the codec not those that
# do the same thousands of times. Others use no more of a dependency, let minutes pass tick by tick, or read files.
#   scripts/miri.sh                       a few minutes
#   PROPTEST_CASES=64 scripts/miri.sh     more cases of each property
# Ends with 3 where Miri is not installed and cannot be downloaded.
set -eu
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1 &&
    ! timeout 300 rustup toolchain install nightly --profile minimal --component miri,rust-src; then
    echo "Miri is not installed, and cannot be downloaded: rustup component add miri" >&2
    exit 3
fi
export PROPTEST_CASES="${PROPTEST_CASES:-2}"
# Miri has no files: a case that fails is printed, and the same cases come again in every run.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=true
forward="-Zmiri-env-forward=PROPTEST_CASES"
forward="$forward -Zmiri-env-forward=PROPTEST_DISABLE_FAILURE_PERSISTENCE"
export MIRIFLAGS="${MIRIFLAGS:-} $forward"

# A line for each program. Miri runs a program on one thread, and so two of them at a time.
library="-p leasehold --all-features --lib"
printf '%s\n' \
    "$library -- machine::call:: machine::ids:: machine::release::tests::what_ machine::release::tests::one_ \
        machine::told:: --skip sim::" \
    "-p leasehold-resp --lib --test encoding --test limits --test properties --test strictness --test wire_forms -- \
        --skip numbers_of_any_length --skip the_deepest_frame --skip the_plain_decoder_agrees" |
    xargs -P 2 -I '{}' sh -euc '
        log=$(mktemp)
        trap "rm -f \"$log\"" EXIT
        failed=
        # shellcheck disable=SC2086
        cargo +nightly miri test --locked $1 >"$log" 2>&1 || failed=yes
        cat "$log"
        [ -z "$failed" ]
    ' sh '{}'
