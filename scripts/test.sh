#!/bin/sh
# Runs every test, with real redis-servers. Arguments go to cargo test:
#   scripts/test.sh                     everything
#   scripts/test.sh --test it           one test program
#   scripts/test.sh -- harness::        tests with "harness::" in their names
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh postgresql python npm haproxy stunnel4 nutcracker
exec cargo test --workspace --all-features --locked "$@"
