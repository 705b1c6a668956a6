//! With all rules on nothing is wrong, however the world behaves within the bounds.

use super::super::lease::{Bounds, Leases, Mutant};
use super::{DRIFTING, RESTARTING, SHORT, finds_nothing};

const ALL_RULES: Mutant = super::NONE;

#[test]
fn three_servers_with_drifting_clocks() {
    let bounds = Bounds { extensions: [1, 0], ..DRIFTING };
    finds_nothing("3 servers, drift", &Leases::<3>::new(bounds, ALL_RULES), 154_000);
}

#[test]
fn three_servers_that_restart_without_memory() {
    let bounds = Bounds { extensions: [1, 0], ..RESTARTING };
    finds_nothing("3 servers, restarts, extension", &Leases::<3>::new(bounds, ALL_RULES), 126_000);
    let bounds = Bounds { attempts: [2, 2], ..RESTARTING };
    finds_nothing("3 servers, restarts, attempts", &Leases::<3>::new(bounds, ALL_RULES), 235_000);
}

/// 3 of 5 tolerates no loss of memory but those that the restart quarantine covers.
#[test]
fn five_servers_that_restart_without_memory() {
    let bounds = Bounds { quorum: 3, ..SHORT };
    finds_nothing("3 of 5, restarts", &Leases::<5>::new(bounds, ALL_RULES), 111_000);
}

/// k = 2q - N - 1, for early expiry and for a stepped wall clock, beside restarts without number.
#[test]
fn as_many_memory_losses_as_the_quorum_tolerates() {
    let bounds = Bounds { quorum: 4, losses: 2, restarts: false, ..SHORT };
    finds_nothing("4 of 5, k=2", &Leases::<5>::new(bounds, ALL_RULES), 71_000);
    let bounds = Bounds { quorum: 3, losses: 1, ..SHORT };
    finds_nothing("3 of 4, k=1, restarts", &Leases::<4>::new(bounds, ALL_RULES), 101_000);
    let bounds = Bounds { quorum: 3, losses: 2, extensions: [1, 0], ..SHORT };
    finds_nothing("3 of 3, k=2, restarts", &Leases::<3>::new(bounds, ALL_RULES), 124_000);
}

/// Nothing is left out: connections end, refusals arrive, ended attempts' messages come late.
#[test]
fn every_message_counts() {
    let bounds = Bounds { strays: true, ..SHORT };
    finds_nothing("3 servers, strays", &Leases::<3>::new(bounds, ALL_RULES), 367_000);
    let bounds = Bounds { quorum: 1, attempts: [2, 1], extensions: [2, 1], ..bounds };
    finds_nothing("1 server, strays", &Leases::<1>::new(bounds, ALL_RULES), 72_000);
    let bounds = Bounds { quorum: 2, attempts: [1, 1], extensions: [1, 0], ..bounds };
    finds_nothing("2 servers, strays", &Leases::<2>::new(bounds, ALL_RULES), 47_000);
}
