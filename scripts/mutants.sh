#!/bin/sh
# Gives the library each known bug in turn, and prints which checks of the simulation noticed it and
# after how many seeds; fails if one goes unnoticed. LEASEHOLD_MUTANT tries one alone,
# LEASEHOLD_MUTANT_SEEDS says after how many seeds to give up.
set -eu
exec "$(dirname "$0")/units.sh" --ignored --nocapture --exact sim::hunt::every_mutant_is_caught
