//! With one rule switched off there is a way to harm, and the search finds the shortest.

use super::super::lease::{Bounds, Leases, Mutant, Repair};
use super::{BOTH, DRIFTING, FOREIGN, NONE, OVERTAKEN, RESTARTING, SHORT, finds};

#[test]
fn validity_from_the_replys_arrival() {
    let mutant = Mutant { counts_from_reply: true, ..NONE };
    finds("counts from the reply", &Leases::<3>::new(DRIFTING, mutant), BOTH);
}

#[test]
fn validity_without_drift() {
    let mutant = Mutant { ignores_drift: true, ..NONE };
    finds("ignores drift", &Leases::<3>::new(DRIFTING, mutant), BOTH);
}

#[test]
fn an_owner_used_again() {
    let bounds = Bounds { attempts: [2, 1], strays: true, ..SHORT };
    let mutant = Mutant { reuses_owner: true, ..NONE };
    finds("reuses the owner", &Leases::<3>::new(bounds, mutant), FOREIGN);
    // And what comes of it; one server is enough to see it.
    let bounds = Bounds { quorum: 1, restarts: false, ..bounds };
    let mutant = Mutant { exclusion_only: true, ..mutant };
    finds("reuses the owner, release", &Leases::<1>::new(bounds, mutant), BOTH);
}

#[test]
fn a_late_grant_to_an_earlier_attempt_that_counts() {
    let bounds = Bounds { quorum: 1, attempts: [2, 1], strays: true, restarts: false, ..SHORT };
    let mutant = Mutant { counts_own_key: true, ..NONE };
    finds("counts a late grant", &Leases::<1>::new(bounds, mutant), BOTH);
}

#[test]
fn a_quarantine_one_tick_short() {
    let mutant = Mutant { short_quarantine: true, ..NONE };
    finds("short quarantine", &Leases::<3>::new(RESTARTING, mutant), BOTH);
}

#[test]
fn one_amnesiac_server_without_a_guard() {
    let bounds = Bounds { losses: 1, ..SHORT };
    let mutant = Mutant { no_guard: true, ..NONE };
    finds("2 of 3, no guard", &Leases::<3>::new(bounds, mutant), BOTH);
}

/// The guard trusts an uptime that a stepped wall clock overstates: that has to count.
#[test]
fn a_stepped_clock_that_does_not_count() {
    let mutant = Mutant { steps_are_free: true, ..NONE };
    finds("steps do not count", &Leases::<3>::new(SHORT, mutant), BOTH);
}

/// No mutant, but one loss of memory more than 3 of 4 tolerates.
#[test]
fn one_loss_too_many() {
    let bounds = Bounds { quorum: 3, losses: 2, restarts: false, ..SHORT };
    finds("3 of 4, k+1", &Leases::<4>::new(bounds, NONE), BOTH);
}

#[test]
fn an_extension_without_a_quorum() {
    let bounds = Bounds { extensions: [1, 0], ..SHORT };
    let mutant = Mutant { extends_by_one: true, ..NONE };
    finds("extends by one", &Leases::<3>::new(bounds, mutant), BOTH);
}

#[test]
fn an_extension_that_recreates_a_lost_lock() {
    let bounds = Bounds { extensions: [1, 0], ..SHORT };
    let mutant = Mutant { repair: Repair::Anywhere, ..NONE };
    finds("recreates", &Leases::<3>::new(bounds, mutant), BOTH);
}

/// An acquire that arrives late re-creates too: the loss has to be final by itself.
#[test]
fn a_lost_lease_that_holds_again() {
    let bounds = Bounds { extensions: [1, 0], restarts: false, ..RESTARTING };
    let mutant = Mutant { revives: true, ..NONE };
    finds("revives", &Leases::<3>::new(bounds, mutant), OVERTAKEN);
}
