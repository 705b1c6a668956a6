//! Quorum repair: may an extension set the lock on servers that miss it?

use super::super::lease::{Bounds, Leases, Mutant, Repair};
use super::{NONE, OVERTAKEN, RESTARTING, SHORT, finds, finds_nothing};

const REPAIRING: Mutant = Mutant { repair: Repair::WhereFit, ..NONE };

/// Yes: asked for while its deadline is ahead, on servers that the restart quarantine lets vote, and
/// counted only when q answered before that deadline. That q *others* hold the lease then need not
/// be proven beside it: until its deadline nobody else can have a quorum. Elsewhere it harms, see
/// `an_extension_that_recreates_a_lost_lock`: another attempt may still count a vote that the
/// server gave before it forgot.
#[test]
fn a_valid_lease_may_be_repaired_where_servers_may_vote() {
    let bounds = Bounds { extensions: [1, 0], ..RESTARTING };
    finds_nothing("repair", &Leases::<3>::new(bounds, REPAIRING), 139_000);
    let bounds = Bounds { extensions: [1, 1], ..SHORT };
    finds_nothing("repair by both", &Leases::<3>::new(bounds, REPAIRING), 149_000);
    let bounds = Bounds { extensions: [2, 0], ..SHORT };
    finds_nothing("two repairs", &Leases::<3>::new(bounds, REPAIRING), 58_000);
    let bounds = Bounds { losses: 1, extensions: [1, 0], strays: true, ..SHORT };
    finds_nothing("repair, strays", &Leases::<2>::new(bounds, REPAIRING), 153_000);
    let bounds = Bounds { quorum: 3, losses: 2, extensions: [1, 0], ..SHORT };
    finds_nothing("repair, k=2", &Leases::<3>::new(bounds, REPAIRING), 178_000);
}

#[test]
fn a_lost_lease_may_not_be_repaired() {
    let bounds = Bounds { extensions: [1, 0], restarts: false, ..SHORT };
    let mutant = Mutant { revives: true, ..REPAIRING };
    finds("repair of a lost lease", &Leases::<3>::new(bounds, mutant), OVERTAKEN);
}
