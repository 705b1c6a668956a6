//! What was given back to a master is given back to its successor as well.

use super::claim::FROZEN_MAX;
use super::core::Core;
use super::parting::Parting;
use super::row::Row;
use crate::clock;
use crate::policy::Redelivery;
use crate::server::command::Command;
use crate::server::node::LEASES;

/// Queues once more what was released lately: the server that is followed now may not have heard of
/// it. A release names an owner that is never used again, so it can do no harm.
pub(super) fn give_back_again(core: &Core) {
    let (Some(recently), [place]) = (core.recently_ended(), core.places()) else { return };
    for ended in recently.take(clock::now()) {
        let Some(slot) = ended.names.first().map(|names| place.slot(names.lock())) else {
            continue;
        };
        let owner = [Some(ended.owner.value()), None];
        let parting =
            Parting::of_owners(owner, ended.rest.as_ref(), true).by(Row::of(ended.sharing));
        let release = parting.from(&ended.names);
        let parameters = release.parameters();
        let release = Command::Script(parting.script(), parameters.words());
        let node = place.node(slot);
        let again = Redelivery::new(ended.at.after(ended.key_life + FROZEN_MAX), false);
        node.owe(LEASES, None, slot, release, again);
    }
}
