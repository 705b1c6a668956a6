#!/bin/sh
# Runs tests of the codec, of the decisions (src/policy) and of the machine under Miri, which finds undefined behaviour in
# whatever they run, the unsafe code of our dependencies included. Left out is what Miri cannot do or would take hours for:
# tests on real servers and in simulated time, those that read what servers said, and the models' searches.
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

# Miri has one thread for each program, and two programs run at once.
of_codec=$(mktemp)
trap 'rm -f "$of_codec"' EXIT
cargo +nightly miri test --locked -p leasehold-resp --lib \
    --test encoding --test limits --test properties --test strictness --test wire_forms >"$of_codec" 2>&1 &
failed=0
cargo +nightly miri test --locked -p leasehold --all-features --lib -- \
    policy:: --skip policy::fitness --skip policy::model --skip policy::mastership --skip policy::lifecycle \
    machine::call:: machine::count:: machine::effect:: machine::ids:: machine::keep:: machine::lease:: machine::release:: \
    machine::standing:: machine::told:: machine::waits:: machine::world:: || failed=1
wait $! || failed=1
cat "$of_codec"
exit "$failed"
