#!/bin/sh
# Gives the library each known bug in turn, and prints which checks of the simulation noticed it and in which seed; fails if
# one goes unnoticed. src/sim/hunt.rs has the seed that is tried first. LEASEHOLD_MUTANT tries one alone,
# LEASEHOLD_MUTANT_SEEDS says after how many seeds to give up.
set -eu
exec "$(dirname "$0")/units.sh" --ignored --nocapture --exact sim::hunt::every_mutant_is_caught
