//! Hand-over: the successor of a holder asks in its stead, and servers give it the lock of its
//! predecessor.

use super::super::lease::{Bounds, Elder, Leases, Mutant, Repair};
use super::{BOTH, DRIFTING, FOREIGN, NONE, RESTARTING, SHORT, finds, finds_nothing};

const HANDING: Bounds = Bounds { attempts: [2, 1], hand_overs: true, ..SHORT };
const REPAIRING: Mutant = Mutant { repair: Repair::WhereFit, ..NONE };

/// The successor is an attempt like any other, but that servers need not have lost what its
/// predecessor set. It rests on the predecessor's belief, which ends when the successor asks, and
/// not on its deadline: a lease that is lost may be handed over too, to no avail but to no harm.
#[test]
fn a_lease_may_be_handed_over() {
    let bounds = Bounds { ttl: RESTARTING.ttl, ..HANDING };
    finds_nothing("hand-over, restarts", &Leases::<3>::new(bounds, NONE), 186_000);
    let bounds = Bounds { attempts: [2, 1], hand_overs: true, ..DRIFTING };
    finds_nothing("hand-over, drift", &Leases::<3>::new(bounds, NONE), 216_000);
    let bounds = Bounds { attempts: [2, 2], ..HANDING };
    finds_nothing("hand-over by both", &Leases::<3>::new(bounds, NONE), 281_000);
    let bounds = Bounds { attempts: [3, 1], ..HANDING };
    finds_nothing("two hand-overs", &Leases::<3>::new(bounds, NONE), 127_000);
    let bounds = Bounds { quorum: 3, losses: 1, restarts: false, ..HANDING };
    finds_nothing("hand-over, 3 of 4, k=1", &Leases::<4>::new(bounds, NONE), 108_000);
}

/// Here predecessor and successor have a connection each: exclusion does not rest on their order.
/// On one connection, which is what they have, no acquire comes behind the releases of both.
#[test]
fn every_message_of_a_hand_over_counts() {
    let bounds = Bounds { restarts: false, strays: true, ..HANDING };
    finds_nothing("hand-over, 2 servers, strays", &Leases::<2>::new(bounds, NONE), 626_000);
    let bounds = Bounds { quorum: 1, attempts: [3, 1], strays: true, ..HANDING };
    finds_nothing("two hand-overs, 1 server, strays", &Leases::<1>::new(bounds, NONE), 55_000);
}

/// A repair of the predecessor arrives before the successor's acquire, after it, or, with strays,
/// when both have ended: then it keeps others out for a TTL.
#[test]
fn a_repaired_lease_may_be_handed_over() {
    let bounds = Bounds { extensions: [1, 0], ..HANDING };
    finds_nothing("hand-over, repair", &Leases::<3>::new(bounds, REPAIRING), 287_000);
    let bounds = Bounds { quorum: 1, extensions: [1, 1], strays: true, ..HANDING };
    finds_nothing("hand-over, repair, strays", &Leases::<1>::new(bounds, REPAIRING), 81_000);
}

#[test]
fn a_predecessor_that_goes_on() {
    let mutant = Mutant { elder: Elder::GoesOn, ..NONE };
    let breach = "a lease goes on beside the one that took over from it";
    finds("the predecessor goes on", &Leases::<3>::new(HANDING, mutant), breach);
}

/// Once its successor has asked, a predecessor is gone for good.
#[test]
fn a_predecessor_that_falls_back() {
    let mutant = Mutant { elder: Elder::FallsBack, ..NONE };
    finds("the predecessor falls back", &Leases::<3>::new(HANDING, mutant), BOTH);
}

#[test]
fn a_successor_that_counts_its_predecessors_grants() {
    let mutant = Mutant { inherits_grants: true, ..NONE };
    finds("inherits grants", &Leases::<3>::new(HANDING, mutant), BOTH);
}

#[test]
fn a_successors_owner_used_again() {
    let bounds = Bounds { quorum: 1, attempts: [3, 1], strays: true, restarts: false, ..HANDING };
    let mutant = Mutant { reuses_heir: true, ..NONE };
    finds("reuses the successor's owner", &Leases::<1>::new(bounds, mutant), FOREIGN);
    let mutant = Mutant { exclusion_only: true, ..mutant };
    finds("reuses the successor's owner, release", &Leases::<1>::new(bounds, mutant), BOTH);
}

#[test]
fn a_release_of_whatever_is_there() {
    let bounds = Bounds { quorum: 1, attempts: [3, 1], strays: true, restarts: false, ..HANDING };
    let mutant = Mutant { deletes_any: true, ..NONE };
    finds("deletes any lock", &Leases::<1>::new(bounds, mutant), FOREIGN);
    let mutant = Mutant { exclusion_only: true, ..mutant };
    finds("deletes any lock, release", &Leases::<1>::new(bounds, mutant), BOTH);
}
