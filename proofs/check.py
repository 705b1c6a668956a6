"""Checks every proof, and that every weakening of a rule breaks it. Prints a table; ends with 1 if not.

    check.py          all of it
    check.py fencing  one system
"""

import multiprocessing
import os
import sys
import time

import exclusion
import fencing
import push
import quorums
from system import is_consistent, prove, refute

SYSTEMS = {
    "fencing": (fencing.fencing, fencing.WEAKENINGS),
    "exclusion": (exclusion.exclusion, exclusion.WEAKENINGS),
    "push": (push.push, push.WEAKENINGS),
}


def check_arithmetic():
    """Quorum intersection and drift."""
    failed = quorums.arithmetic() + exclusion.clocks()
    still = quorums.weakened()
    if failed or still:
        return False, f"do not hold: {failed}; hold with one less: {still}"
    return True, "holds; with one server less, each bound fails"


def check_proof(name):
    make, _ = SYSTEMS[name]
    if not is_consistent(make()):
        return False, "the axioms contradict each other"
    failed = prove(make())
    system = make()
    count = (len(system.actions) + 1) * len(system.invariants) + len(system.safety)
    return not failed, f"{failed}" if failed else f"{count} obligations, for every N"


def check_weakening(name, rule, steps):
    make, _ = SYSTEMS[name]
    failed = prove(make(rule))
    if not failed:
        return False, "the proof still holds: the check cannot fail"
    if steps and not refute(make(rule), steps):
        return False, f"no run of {steps} steps shows the breach"
    return True, f"fails: {failed[0]}" + (f"; breach in {steps} steps" if steps else "")


def perform(task):
    title, function, arguments = task
    begun = time.monotonic()
    good, words = function(*arguments)
    return title, good, words, time.monotonic() - begun


def main(names):
    tasks = [("arithmetic", check_arithmetic, ())]
    for name in names or SYSTEMS:
        tasks.append((name, check_proof, (name,)))
        for rule, steps in SYSTEMS[name][1].items():
            tasks.append((f"{name}, weakened: {rule}", check_weakening, (name, rule, steps)))
    bad = 0
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for title, good, words, took in pool.imap(perform, tasks):
            print(f"{'ok    ' if good else 'FAILED'} {title}: {words} ({took:.1f} s)", flush=True)
            bad += not good
    print(f"\n{len(tasks) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
