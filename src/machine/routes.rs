//! A Cluster: each server has some slots of all keys, and slots move between servers that serve.
//!
//! A lease has one replica for each slot of its locks; a link leads to one of the servers. The driver finds out which
//! server has which slot, and gives the machine a map ([`Machine::route`]). A server that no longer has a slot does nothing, and
//! names the one that has it: the command is sent again there, a bounded number of times, with its first time and its owner.

use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::answer::Answer;
use super::command::{Command, Form, Scripts};
use super::core::{Effect, Happening, Machine, NEVER};
use super::ids::LeaseId;
use super::kind::{Kind, Question, Words};
use super::lease::{Has, Lease, Phase, Replica};
use super::link::{Link, State};
use super::routing::{NodeId, Nodes, Pieces, Redirect, Routed, Routes, Routing, SLOTS, UNKNOWN};
use super::rules::share_a_node;
use super::session::Fault;
use super::talk::{Reply, To, What};
use crate::names::Names;
use crate::policy::fitness::Unfit;
use crate::policy::{Code, Moment};

/// How long a server without slots keeps its connection after a redirect to it: a slot that moves may have leases there
/// before a map says so.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Time without an answer of a known node until all nodes count as replaced: longer than most failovers.
const OTHERS_AFTER: Duration = Duration::from_secs(60);

impl Machine {
    /// Turns routing by slots on, at the beginning. Until there is a map, each key is requested at the first ready link.
    pub(crate) fn routes_by(&mut self, routing: Routing) {
        let links = vec![UNKNOWN; SLOTS];
        self.command.slot_of = Some(routing.slot_of);
        self.routes = Some(Box::new(Routes {
            routing,
            links,
            is_known: false,
            nodes: Vec::new(),
            others_since: None,
            is_anew: false,
        }));
    }

    /// Checks a server that names these nodes. Returns whether all known nodes were replaced.
    ///
    /// # Errors
    ///
    /// None of them is known: at a node's address is a server that is no node, or one of another Cluster, which would
    /// serve all slots.
    pub(super) fn check_node(&mut self, named: Nodes) -> Result<bool, Fault> {
        let Some(routes) = &mut self.routes else { return Ok(false) };
        match named {
            Some(named) if routes.nodes.is_empty() => routes.nodes = named,
            Some(named) if !share_a_node(&routes.nodes, &named) => {
                return Err(Fault::Unfit(Unfit::NoNode));
            }
            _ => {}
        }
        routes.others_since = None;
        Ok(routes.is_anew)
    }

    /// Whether to believe these nodes of a server that may be none itself: one is known, or no known node has answered for
    /// long.
    pub(crate) fn are_nodes(&mut self, named: &[NodeId], now: Moment) -> bool {
        let is_met = self.links.iter().any(Link::is_ready);
        let Some(routes) = &mut self.routes else { return true };
        let has_ids = !named.is_empty() && !routes.nodes.is_empty();
        if has_ids && !share_a_node(&routes.nodes, named) {
            let since = routes.others_since.filter(|_| !is_met).unwrap_or(now);
            routes.others_since = Some(since);
            if now.since(since) < OTHERS_AFTER {
                return false;
            }
            routes.is_anew = true;
        }
        routes.others_since = None;
        true
    }

    /// Whether there is a map.
    pub(crate) fn is_routed(&self) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.is_known)
    }

    /// The number of links, which only grows.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// The links that serve slots, by the map.
    pub(crate) fn masters(&self) -> Vec<usize> {
        let mut serves = vec![false; self.links.len()];
        for link in self.routes.iter().flat_map(|routes| &routes.links) {
            serves.get_mut(usize::from(*link)).into_iter().for_each(|it| *it = true);
        }
        let mut masters = Vec::new();
        for (link, serves) in serves.into_iter().enumerate() {
            if serves {
                masters.push(link);
            }
        }
        masters
    }

    /// Whether a link serves slots, by the map.
    pub(crate) fn is_master(&self, link: usize) -> bool {
        let serves = |known: &u16| usize::from(*known) == link;
        self.routes.as_ref().is_some_and(|routes| routes.links.iter().any(serves))
    }

    /// The map: the addresses of masters, the ids of all nodes, and which of those masters has a slot.
    pub(crate) fn route(
        &mut self,
        masters: &[String],
        named: &[NodeId],
        owner_of: &dyn Fn(u16) -> Option<usize>,
        now: Moment,
    ) {
        let mut of_masters = Vec::new();
        for master in masters {
            of_masters.push(self.link_at(master, now).map_or(UNKNOWN, number));
        }
        let Some(routes) = &mut self.routes else { return };
        if !named.is_empty() {
            routes.nodes = named.to_vec();
        }
        let mut links = vec![UNKNOWN; SLOTS];
        for (slot, link) in (0..).zip(&mut links) {
            let owner = owner_of(slot).and_then(|at| of_masters.get(at));
            *link = owner.copied().unwrap_or(UNKNOWN);
        }
        let is_another = links != routes.links;
        (routes.links, routes.is_known) = (links, true);
        // Also by an unchanged map: some leases have moved by a redirect, and some were waiting for a reply.
        self.lead_leases(is_another, now);
        if is_another {
            // No server has told of changes to keys that moved. Leases there are renewed.
            self.tell_callers(Happening::Changed(None), now);
            self.first_may_ask(None, now);
            self.looks_anew(now);
        }
        for at in 0..self.links.len() {
            if !of_masters.contains(&number(at)) {
                self.let_go(at, now);
            }
        }
    }

    /// The link to the server at this address, which is dialled from now on; none if there are too many links.
    fn link_at(&mut self, address: &str, now: Moment) -> Option<usize> {
        let known = self.links.iter().position(|link| *link.address == *address);
        let at = known.or_else(|| self.links.iter().position(Link::is_let_go));
        let at = at.unwrap_or(self.links.len());
        if self.links.get(at).is_some_and(|link| !link.is_let_go()) {
            return Some(at);
        }
        let link = Link::new(address.into(), now);
        match self.links.get_mut(at) {
            Some(free) => *free = link,
            None if at == SLOTS => return None,
            None => self.links.push(link),
        }
        self.note(now);
        Some(at)
    }

    /// Whether a lease or a call uses a server.
    pub(crate) fn is_wanted(&mut self, at: usize) -> bool {
        let is_there = |lease: &Lease| lease.at_link(at).next().is_some();
        let is_called = self.calls.all().any(|(_, call)| call.waits_at(at));
        let link = &self.links[at];
        let is_asked = is_called || link.talk.in_flight() > 0 || !link.awaited.is_empty();
        is_asked || self.leases.iter().any(|(_, it)| is_there(it))
    }

    /// Closes the connection to a server without slots, unless it is used, or was lately.
    fn let_go(&mut self, at: usize, now: Moment) {
        let is_kept = |sent_at: Moment| now.since(sent_at) < KEPT_FOR;
        let is_kept = self.links[at].sent_here_at.is_some_and(is_kept);
        if self.links[at].is_let_go() || is_kept || self.is_wanted(at) {
            return;
        }
        self.end_link(at, Fault::Closed, now);
        let link = &mut self.links[at];
        // Releases that were owed there have moved with the slot.
        link.owed.clear();
        link.state = State::Down { dial_at: NEVER, soonest: NEVER };
        self.tell_callers(Happening::Tried(at), now);
    }

    /// Leads leases to the servers that have their slots now. A redirect of this round is newer than an unchanged map.
    fn lead_leases(&mut self, is_another: bool, now: Moment) {
        for id in self.all(&|_, _| true) {
            let Some(lease) = self.leases.get(id) else { continue };
            let mut moved = Vec::new();
            for (at, Replica { routed, .. }) in lease.replicas.iter().enumerate() {
                let may = is_another || routed.detours.0 != lease.round;
                let is_elsewhere = self.link_of_slot(routed.slot) != lease.link(at);
                if may && is_elsewhere && !self.is_settling_at(lease, at) {
                    moved.push(at);
                }
            }
            for at in moved {
                self.lead(id, at, now);
            }
        }
        self.renew_all(now);
    }

    /// Whether the reply to the last command there is still to come.
    fn is_settling_at(&self, lease: &Lease, at: usize) -> bool {
        let (replica, link) = (&lease.replicas[at], &self.links[lease.link(at)]);
        let is_there = link.is_ready() && link.generation == replica.generation;
        is_there && lease.is_under_way_at(at)
    }

    fn lead(&mut self, id: LeaseId, at: usize, now: Moment) {
        let Some(lease) = self.leases.get(id) else { return };
        let to = self.link_of_slot(lease.replicas[at].routed.slot);
        let from = lease.link(at);
        let Some(lease) = self.leases.get_mut(id) else { return };
        let replica = &mut lease.replicas[at];
        replica.leads_to(to);
        let has = replica.has;
        let is_owed = matches!(has, Has::Owed | Has::Releasing);
        if is_owed {
            (replica.has, replica.due) = (Has::Owed, Some(now));
        }
        let is_kept = lease.is_held() && lease.is_renewed && has == Has::Key;
        let awaited = &mut self.links[from].awaited;
        let count = awaited.len();
        awaited.retain(|other| *other != id);
        if awaited.len() < count {
            if lease.at_link(from).next().is_some() {
                awaited.push(id);
            }
            self.links[to].awaited.push(id);
            if self.links[to].is_ready() {
                self.go_on(to, now);
            }
        }
        if is_owed {
            self.give_back_again(id, now);
            self.release_is_late(id, now);
        } else if is_kept {
            self.batches.due.push(id);
        }
    }

    /// The link to the server of a slot; if none is known, one that serves.
    pub(crate) fn link_of_slot(&self, slot: u16) -> usize {
        let known = self.routes.as_ref().map_or(UNKNOWN, |routes| routes.links[usize::from(slot)]);
        let any = || self.links.iter().position(Link::is_ready).unwrap_or(0);
        if known == UNKNOWN { any() } else { known.into() }
    }

    /// The link to the server of a key.
    pub(super) fn link_of_key(&self, key: &[u8]) -> usize {
        let slot = self.routes.as_ref().map_or(0, |routes| (routes.routing.slot_of)(key));
        self.link_of_slot(slot)
    }

    /// The replicas of a lease, one for each slot; none without slots.
    pub(super) fn routed(
        &self,
        kind: &Kind,
        names: &Names,
        words: &Words,
    ) -> Option<Box<[Replica]>> {
        let slot_of = self.routes.as_ref()?.routing.slot_of;
        let mut slots = vec![slot_of(names.lock())];
        for key in kind.also(words) {
            let slot = slot_of(key);
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        let is_of_several = slots.len() > 1;
        let replica = |slot| {
            let routed = Routed { slot, is_of_several, ..Routed::default() };
            Replica { routed, ..Replica::at(self.link_of_slot(slot)) }
        };
        Some(slots.into_iter().map(replica).collect())
    }

    /// Renews leases one by one: no server takes keys of several slots in one command.
    pub(super) fn renew_by_slots(&mut self, batch: &[LeaseId], now: Moment) {
        for &id in batch {
            let count = self.leases.get(id).map_or(0, |lease| lease.replicas.len());
            for at in 0..count {
                let Some(lease) = self.leases.get(id) else { break };
                self.renew_at_one(lease.link(at), at, &[id], now);
            }
        }
    }

    /// A server has not run a command because it lacks some of its keys; returns whether the command was sent again.
    pub(super) fn follow(&mut self, server: usize, reply: &Reply, code: Code, now: Moment) -> bool {
        match (code, reply.to) {
            (Code::Apart, To::Lease { id, at, round, what }) => {
                return self.take_apart((id, at.into()), (round, what), now);
            }
            (Code::Apart, _) => return false,
            _ => {}
        }
        let redirect = self.routes.as_ref().map(|routes| routes.routing.redirect);
        let read = |text: &Bytes| redirect.and_then(|it| it(text, &self.links[server].address));
        let redirect = reply.frame.error().and_then(read);
        // In the map a moving slot stays where it was.
        if redirect.as_ref().is_none_or(|redirect| redirect.is_lasting) {
            self.effects.push(Effect::Demoted(server));
        }
        let Some(Redirect { slot, to, is_lasting }) = redirect else { return false };
        let Some(to) = self.link_at(&to, now) else { return false };
        // The name leads to another server by now.
        if is_lasting && to == server {
            self.leave_later(server, now);
            return false;
        }
        if let Some(routes) = self.routes.as_mut().filter(|_| is_lasting) {
            let before = std::mem::replace(&mut routes.links[usize::from(slot)], number(to));
            if before != number(to) {
                self.tell_callers(Happening::Changed(None), now);
            }
        }
        let link = &mut self.links[to];
        link.sent_here_at = if is_lasting { link.sent_here_at } else { Some(now) };
        // No redirect leads a lock's request to a server that may not vote.
        let is_lock = matches!(reply.to, To::Lease { what: What::Acquire, .. });
        let is_barred = is_lock && link.is_ready() && !link.may_grant(now);
        if !is_lasting {
            if let Some(text) = link.talk.asking_refused.take() {
                let told = Reply { frame: Frame::Error(text), ..*reply };
                self.dispatch(server, told.to, Some(&told), now);
                return true;
            }
        }
        let form = link.talk.form;
        if link.is_ready() && !is_lasting && !is_barred {
            link.talk.command(&[b"ASKING"], To::Asking, now);
            // By `EVAL`: if the server lacked the script, a repeated command would lack the `ASKING`, and a command that loads
            // it first would use the `ASKING` up.
            let its = if form == Form::Loaded { Form::Digest } else { form.max(Form::Whole) };
            (link.is_asking, link.talk.form) = (true, its);
        }
        let is_asked = match reply.to {
            To::Lease { id, at, round, what } => {
                let lease = (id, at.into());
                self.ask_there(server, lease, (round, what), (to, is_lasting, is_barred), now)
            }
            To::Call(id) => self.tell_callers(Happening::Missed(to, id), now),
            _ => false,
        };
        let link = &mut self.links[to];
        (link.is_asking, link.talk.form) = (false, form);
        if is_barred {
            self.look(to, now);
        }
        is_asked
    }

    /// Sends a command of a lease that this server has redirected to another one, once that is connected.
    fn ask_there(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        (round, what): (u32, What),
        (to, is_lasting, is_barred): (usize, bool, bool),
        now: Moment,
    ) -> bool {
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id).filter(|lease| lease.round == round) else {
            return false;
        };
        let replica = &mut lease.replicas[at];
        replica.goes_on(links[server].generation);
        let link = &mut links[to];
        // A server that does not serve the slot yet pushes nothing.
        replica.routed.is_apart |= !is_lasting;
        let may_detour = what != What::Wait && !is_barred && replica.routed.may_detour(round);
        if !may_detour {
            // The next command begins there.
            if is_lasting {
                replica.leads_to(to);
            }
            replica.routed.detours = (0, 0);
            return false;
        }
        let from = replica.link;
        replica.leads_to(to);
        let leaves = link.is_ready() && !is_lasting;
        if link.is_ready() {
            replica.generation = link.generation;
        }
        let is_asked = self.repeat((id, at), round, what, now);
        // A redirect of one command leaves the slot where it was.
        if let Some(lease) = self.leases.get_mut(id).filter(|_| leaves) {
            lease.replicas[at].link = from;
        }
        is_asked
    }

    /// A command of a lease waits until its server is connected.
    pub(super) fn ask_later(
        &mut self,
        (id, at): (LeaseId, usize),
        what: What,
        now: Moment,
    ) -> bool {
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return false };
        let is_begun = lease.piece(at, what).is_some_and(|piece| piece.number > 0);
        let replica = &mut lease.replicas[at];
        let link = &mut links[usize::from(replica.link)];
        match what {
            What::Acquire if lease.phase == Phase::Asking => {
                // The server that redirected it did nothing; another one may have run its first piece.
                replica.has = match replica.has {
                    Has::Asked if is_begun => Has::Perhaps,
                    Has::Asked => Has::Nothing,
                    has => has,
                };
                lease.votes.asked &= !(1 << at);
                lease.votes.watched &= !(1 << at);
                link.awaited.push(id);
                link.want(now);
            }
            What::Release if replica.has == Has::Releasing => {
                (replica.has, replica.due) = (Has::Owed, Some(now));
                self.give_back_again(id, now);
                self.release_is_late(id, now);
            }
            What::Extend => {
                lease.votes.asked &= !(1 << at);
                link.awaited.push(id);
                link.want(now);
            }
            _ => return false,
        }
        self.note(now);
        true
    }

    /// The keys of a command are at two servers, while the slot moves: sends it in pieces, key by key.
    fn take_apart(
        &mut self,
        (id, at): (LeaseId, usize),
        (round, what): (u32, What),
        now: Moment,
    ) -> bool {
        let Some(Routing { by_keys, spell, .. }) = self.routes.as_ref().map(|it| it.routing) else {
            return false;
        };
        let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.round == round) else {
            return false;
        };
        let may = by_keys(lease.asks_as());
        let routed = &mut lease.replicas[at].routed;
        routed.is_apart = true;
        if !may || !matches!(what, What::Acquire | What::Extend | What::Release) {
            return false;
        }
        let of = (round, what);
        routed.pieces =
            Some(Box::new(Pieces { of, number: 0, minted: None, is_missing: false, spell }));
        self.repeat((id, at), round, what, now)
    }

    /// Takes the reply to a piece of a command; returns whether there are more pieces, or that was the last.
    pub(super) fn is_piece(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        of: (u32, What),
        reply: Option<&Reply>,
        now: Moment,
    ) -> bool {
        let Some(lease) = self.leases.get_mut(id) else { return false };
        let count = lease.pieces(at, of.1, self.command.slot_of);
        let has_key = |piece: &Pieces| of.1 == What::Acquire && piece.number > 0;
        // A command in pieces of an earlier round has been released since, as a whole.
        let is_present = lease.round == of.0;
        let replica = &mut lease.replicas[at];
        let is_it = |pieces: &Pieces| is_present && pieces.of == of;
        let Some(pieces) = replica.routed.pieces.as_deref().copied().filter(is_it) else {
            let is_settled = replica.routed.detours.0 != of.0
                && reply.is_some_and(|reply| reply.frame.error().is_none());
            replica.routed.is_apart &= !is_settled;
            return false;
        };
        replica.routed.pieces = None;
        let frame = reply.filter(|reply| reply.frame.error().is_none()).map(|reply| &reply.frame);
        let mut next = Pieces { number: pieces.number + 1, ..pieces };
        match frame.and_then(|frame| Answer::of_acquire(frame.value())) {
            Some(Answer::Granted(token)) => next.minted = token.or(pieces.minted),
            Some(Answer::NotOwned) if of.1 == What::Release => next.is_missing = true,
            _ => {
                if has_key(&pieces) {
                    replica.has = Has::Key;
                }
                // Each piece has an answer, perhaps of another server: no piece can arrive late.
                if reply.is_some() {
                    replica.goes_on(self.links[server].generation);
                    replica.generation = self.links[usize::from(replica.link)].generation;
                }
                return false;
            }
        }
        if next.number < count {
            (replica.routed.pieces, replica.routed.detours) = (Some(Box::new(next)), (0, 0));
            return self.repeat((id, at), of.0, of.1, now);
        }
        let answer = if next.is_missing { Answer::NotOwned } else { Answer::Granted(next.minted) };
        self.came_to(server, (id, at), of, (reply, answer), now);
        true
    }
}

impl Link {
    fn is_let_go(&self) -> bool {
        matches!(self.state, State::Down { dial_at: NEVER, .. })
    }
}

impl Replica {
    /// Another link leads to its server.
    fn leads_to(&mut self, link: usize) {
        (self.link, self.is_listed) = (number(link), false);
    }
}

impl Lease {
    /// Whether the reply to a request at this index is still to come. A release is repeated anyway: a server that has
    /// lost its slots may never answer.
    fn is_under_way_at(&self, at: usize) -> bool {
        self.replicas[at].has == Has::Asked
    }

    /// The present piece of a command, if it is in pieces.
    pub(super) fn piece(&self, at: usize, what: What) -> Option<Pieces> {
        let pieces = self.replicas[at].routed.pieces.as_deref().copied();
        pieces.filter(|pieces| pieces.of == (self.round, what))
    }

    /// Encodes that piece, if any. A lock with a least time is released by an extension to the rest of that time.
    pub(super) fn spells_piece(
        &self,
        at: usize,
        what: What,
        command: &mut Command,
        scripts: &Scripts,
        now: Moment,
    ) -> bool {
        let Some(piece) = self.piece(at, what) else { return false };
        let question = self.question(at, command, scripts);
        let rest = self.rest_ms(now).filter(|_| what == What::Release);
        let (what, ttl_ms) = rest.map_or((what, question.ttl_ms), |rest| (What::Extend, rest));
        (piece.spell)(Question { ttl_ms, ..question }, what, piece.number);
        true
    }

    /// The number of pieces of a command.
    fn pieces(&self, at: usize, what: What, slot_of: Option<fn(&[u8]) -> u16>) -> usize {
        let slot = self.replicas[at].routed.slot;
        let is_here = |key: &&[u8]| slot_of.is_some_and(|slot_of| slot_of(key) == slot);
        let locks = self.keys().filter(is_here).count();
        match what {
            What::Acquire => 3 * locks,
            What::Release if self.entry.is_some() => 2 * locks,
            _ => locks,
        }
    }
}

fn number(link: usize) -> u16 {
    u16::try_from(link).expect("there are fewer servers than slots")
}

#[cfg(test)]
mod tests;
