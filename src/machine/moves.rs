//! A link that is led to another server: to a replica that was promoted.
//!
//! The new server may lack the last writes of the old one. Leases are looked for there at once, as at another run of the
//! same server, and recent releases are sent once more. That does no harm, because a release names an owner that is never
//! used again.

use super::command::Memory;
use super::core::Machine;
#[cfg(feature = "sentinel")]
use super::core::NEVER;
use super::link::State;
use super::session::Fault;
use super::talk::To;
use crate::policy::Moment;

impl Machine {
    /// Has the link remember its releases.
    pub(crate) fn remembers(&mut self, server: usize, memory: Box<dyn Memory>) {
        self.links[server].succession.memory = Some(memory);
    }

    /// The link leads to no server until it is led to one.
    #[cfg(feature = "sentinel")]
    pub(crate) fn leads_nowhere(&mut self, server: usize) {
        self.links[server].state = State::Down { dial_at: NEVER, soonest: NEVER };
    }

    /// Leads the link to another server, which may not vote before `votes_at`. A dial to the former server, if the driver has
    /// not reported its result, is void.
    pub(crate) fn moved(&mut self, server: usize, address: String, votes_at: Moment, now: Moment) {
        // What waits for the connection now waits for the next one.
        let awaited = std::mem::take(&mut self.links[server].awaited);
        self.end_link(server, Fault::Closed, now);
        let link = &mut self.links[server];
        (link.address, link.awaited) = (address.into(), awaited);
        (link.succession.is_elsewhere, link.succession.settles_at) = (true, votes_at);
        // The former run tells nothing about the age of this one.
        (link.sighting, link.failed, link.is_down) = (None, 0, false);
        link.state = State::Down { dial_at: now, soonest: now };
        self.note(now);
    }

    /// Whether this server replaces another: then it gets the releases that it may lack.
    pub(super) fn takes_over(&mut self, server: usize, now: Moment) -> bool {
        let link = &mut self.links[server];
        if !std::mem::replace(&mut link.succession.is_elsewhere, false) {
            return false;
        }
        if let Some(memory) = &mut link.succession.memory {
            memory.tell_again(now, &mut |release| link.talk.say(release, To::Nobody, now));
        }
        true
    }
}

#[cfg(test)]
mod tests;
