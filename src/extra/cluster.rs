//! A Redis Cluster: a key is in a slot, a map has the slot's master, and other nodes redirect to that.

use super::apart::{by_keys, spell};
use crate::cluster::host_port::HostPort;
use crate::cluster::map::Map;
use crate::cluster::redirect::{self, Kind};
use crate::cluster::slot::slot_of;
use crate::machine::{Machine, Redirect, Routing};
use crate::policy::Moment;

/// How a Cluster's keys are routed.
pub(crate) const ROUTING: Routing = Routing { slot_of, redirect, by_keys, spell };

fn redirect(error: &[u8], asked: &str) -> Option<Redirect> {
    let told = redirect::Redirect::parse(error, &HostPort::read(asked)?)?;
    let to = told.to?.to_string();
    Some(Redirect { slot: told.slot, to, is_lasting: told.kind == Kind::Moved })
}

/// Has the machine route by this map if it comes from a node, or if the machine takes its nodes for the Cluster's.
pub(crate) fn route(machine: &mut Machine, map: &Map, is_node: bool, now: Moment) -> bool {
    if !is_node && !machine.are_nodes(&map.nodes, now) {
        return false;
    }
    let masters: Vec<String> = map.masters().iter().map(ToString::to_string).collect();
    machine.route(&masters, &map.nodes, &|slot| map.owner_of(slot), now);
    true
}

#[cfg(test)]
mod tests;
