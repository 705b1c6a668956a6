#!/bin/sh
# Runs the codec's tests and those of the decisions (src/policy) under Miri, which finds undefined
# behaviour in whatever they run, the unsafe code of our dependencies included. Left out is what
# Miri cannot do or would take hours for: the tests on a real server, those that read what servers said (policy::fitness),
# and the models' searches.
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
cargo +nightly miri test --locked -p leasehold-resp --lib \
    --test encoding --test limits --test properties --test strictness --test wire_forms
cargo +nightly miri test --locked -p leasehold --features sentinel --lib policy:: -- \
    --skip policy::fitness --skip policy::model --skip policy::mastership --skip policy::lifecycle
