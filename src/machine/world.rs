//! The machine's inputs: time, connections, and received bytes; and the replies that prove that a command did not run, so that
//! it is sent again on the same connection.
//!
//! `NOSCRIPT` is routine: SCRIPT FLUSH, a restart and a failover all empty the cache. The script is then sent by `EVAL`,
//! once, which loads it again. A server without `EVALSHA` gets all later scripts by `EVAL`, and one
//! without `EVAL` gets a `SCRIPT LOAD` before each. A server that lets no script call `TIME` gets scripts with another clock;
//! that is safe, because a script calls `TIME` before any write that a second run would miss, or an earlier script of the same
//! link has called it. `AGAIN` is the reply of a script that reached the bound of its work before it did its task; it is called
//! until it has. A request that is refused because a batch has not released this process' former lease is sent again behind the
//! release that does. After no other reply is a command sent again.
//!
//! A repeated command keeps its time and its owner: a lease counts from the first sending, and a command without a caller
//! is not repeated.

use std::time::Duration;

use bytes::BytesMut;
use leasehold_resp::Frame;

use super::answer::Answer;
use super::command::Form;
use super::core::{Effect, Happening, Machine, NEVER};
use super::greeting::Handshake;
use super::ids::LeaseId;
use super::kind::FENCED;
use super::lease::{Has, Lease, Phase};
use super::link::State;
use super::session::Fault;
use super::talk::{Reply, To, What};
use crate::policy::parts::has;
use crate::policy::{Backoff, Code, LeaseState, Moment, line_of, names_eval};

/// Shortest time from a refused release until another write has it sent again: a server may always refuse releases.
const RESEND_GAP: Duration = Duration::from_millis(100);
/// The pause between two failed dials: short at first, because most outages are short, then a second.
const DIALS: Backoff =
    Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };
/// Maximum due leases in one call, so that other work goes on in between.
const DUE_MAX: usize = 256;
/// The capacity for replies that is kept.
const PROVED_MAX: usize = 256;

impl Machine {
    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Moment) {
        for server in 0..self.links.len() {
            self.tick_link(server, now);
        }
        let mut due = std::mem::take(&mut self.due);
        self.leases.take_due(now, DUE_MAX, &mut due);
        for id in due.drain(..) {
            let Some(lease) = self.leases.get_mut(id) else { continue };
            lease.planned = NEVER;
            let at = lease.due;
            if at <= now {
                self.is_due(id, now);
            } else {
                self.plan(id, at);
            }
        }
        self.due = due;
        self.renew_all(now);
        self.look_ahead();
    }

    fn tick_link(&mut self, server: usize, now: Moment) {
        let (silence, connect_timeout) = (self.silence(), self.settings.connect_timeout);
        let link = &mut self.links[server];
        let is_over = |at: Moment| at <= now;
        match link.state {
            State::Down { dial_at, .. } if is_over(dial_at) => {
                link.state = State::Dialling;
                self.effects.push(Effect::Dial(server, connect_timeout));
            }
            State::Ready if link.talk.silent_at(silence).is_some_and(is_over) => {
                self.end_link(server, Fault::Silent, now);
            }
            State::Ready if link.talk.leave_at.is_some_and(is_over) => {
                self.end_link(server, Fault::Demoted, now);
            }
            #[cfg(any(test, feature = "credentials"))]
            State::Ready => self.renew_login(server, now),
            _ => {}
        }
    }

    fn is_due(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        match lease.phase {
            Phase::Asking => self.are_late(id, now),
            Phase::Resting { .. } | Phase::InLine => self.waited(id, now),
            Phase::Queued => (self.settings.waits.due)(self, id, now),
            Phase::Granted(LeaseState::Held { .. }) => self.is_due_to_be_kept(id, now),
            Phase::Granted(_) | Phase::GivingBack => {
                self.give_back_again(id, now);
                self.release_is_late(id, now);
            }
            Phase::Refused(_) => {}
        }
    }

    /// A link is up, and its handshake is over: its server is judged.
    pub(crate) fn connected(&mut self, server: usize, greeted: Handshake, now: Moment) {
        if let Err(fault) = self.is_ready(server, greeted, now) {
            self.end_link(server, fault, now);
        }
    }

    /// A dial has failed, or a connection has ended.
    pub(crate) fn disconnected(&mut self, server: usize, fault: Fault, now: Moment) {
        let random = (self.settings.random)();
        if matches!(self.links[server].state, State::Down { .. }) {
            return;
        }
        self.flush(now);
        let link = &mut self.links[server];
        // A connection that lasted was a success; one that ends at once is not.
        if link.is_ready() && now.since(link.ready_at) > DIALS.longest {
            link.failed = 0;
        }
        let dial_at = now.after(DIALS.delay(link.failed, random));
        let soonest = now.after(DIALS.delay(link.failed / 2, random));
        link.failed = link.failed.saturating_add(1);
        (link.fault, link.is_down) = (Some(fault), !link.is_ready());
        let mut over = link.end(State::Down { dial_at, soonest }, now);
        self.note(dial_at);
        if self.is_by_slots() {
            self.effects.push(Effect::Demoted(server));
        }
        self.tell_of_meeting();
        while let Some(to) = over.lost() {
            self.dispatch(server, to, None, now);
        }
        self.is_told_no_more(server, now);
        self.tell_callers(Happening::Changed(None), now);
        self.go_on(server, now);
        self.tell_of_end();
    }

    pub(super) fn end_link(&mut self, server: usize, fault: Fault, now: Moment) {
        self.effects.push(Effect::Close(server, fault.clone()));
        self.disconnected(server, fault, now);
    }

    /// Takes bytes that a link has read, and leaves a partial reply in them.
    pub(crate) fn received(&mut self, server: usize, bytes: &mut BytesMut, now: Moment) {
        if !self.links[server].is_ready() {
            bytes.clear();
            return;
        }
        let mut proved = std::mem::take(&mut self.proved);
        let ended = self.links[server].talk.hear(bytes, &mut proved, now).err();
        for reply in &proved {
            if self.links[server].talk.is_nonsense {
                self.dispatch(server, reply.to, None, now);
            } else if reply.to == To::Push && ended.is_some() {
                // A push on a connection that is out of step is not proved.
            } else if reply.frame.error().is_none() || !self.ask_again(server, reply, now) {
                self.dispatch(server, reply.to, Some(reply), now);
            }
        }
        proved.clear();
        self.links[server].talk.keeps_little();
        // The memory of a burst is not kept.
        self.proved = if proved.capacity() > PROVED_MAX { Vec::new() } else { proved };
        let nonsense = self.links[server].talk.is_nonsense.then_some(Fault::Misplaced);
        if let Some(fault) = ended.or(nonsense) {
            bytes.clear();
            self.end_link(server, fault, now);
        } else if self.links[server].has_room_again() {
            self.go_on(server, now);
        }
    }

    /// Takes the result of a command: its reply, or none if the connection ended before.
    pub(super) fn dispatch(&mut self, server: usize, to: To, reply: Option<&Reply>, now: Moment) {
        match (to, reply) {
            (To::Handshake { .. } | To::Seal | To::Nobody, _) => {}
            #[cfg(any(test, feature = "cluster"))]
            (To::Asking, reply) => {
                let error = reply.and_then(|reply| reply.frame.error());
                self.links[server].talk.asking_refused = error.cloned();
            }
            #[cfg(any(test, feature = "grace"))]
            (To::Reign, reply) => self.learns(server, reply, now),
            #[cfg(any(test, feature = "credentials"))]
            (To::Login, reply) => self.logged_in(server, reply.map(|it| it.frame.value()), now),
            (To::Told(what), reply) => {
                let is_so = reply.is_some_and(|reply| reply.frame.error().is_none());
                self.is_told(server, what, is_so, now);
            }
            (To::Push, reply) => {
                if let Some(Frame::Push(items)) = reply.map(|reply| &reply.frame) {
                    (self.settings.waits.pushed)(self, server, items, now);
                }
            }
            (To::Lease { id, round, what: What::Wait, .. }, reply) => {
                self.entry_answered(id, round, reply.map(|reply| &reply.frame), now);
                self.tell_callers(Happening::Answered(id), now);
            }
            (To::Lease { id, at, round, what: what @ (What::Holder | What::HolderTtl) }, reply) => {
                let reply = reply.map(|reply| reply.frame.value());
                self.holder_is_said(id, at.into(), (round, what), reply, now);
            }
            #[cfg(any(test, feature = "scriptless"))]
            (To::Lease { id, at, round, what: What::Step(step) }, reply) => {
                self.stepped(server, (id, at.into()), (round, step), reply, now);
            }
            #[cfg(any(test, feature = "replicas"))]
            (To::Lease { id, at, round, what: What::Count }, reply) => {
                self.counted(id, at.into(), round, reply);
            }
            (To::Call(id), reply) => _ = self.tell_callers(Happening::Replied(id, reply), now),
            (To::Batch(batch, what), reply) => {
                self.batch_answered(server, (batch, what), reply, now);
            }
            (To::Lease { id, at, round, what }, reply) => {
                // Even if the round or its lease is over, because a quorum was faster.
                if what == What::Acquire && reply.is_some() {
                    self.note_answer(server);
                }
                self.lease_answered(server, (id, at.into()), (round, what), reply, now);
            }
        }
    }

    fn lease_answered(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        (round, what): (u32, What),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        self.tell_callers(Happening::Answered(id), now);
        #[cfg(any(test, feature = "cluster"))]
        if self.is_piece(server, (id, at), (round, what), reply, now) {
            return;
        }
        let Some(lease) = self.leases.get(id) else { return };
        let read = match what {
            What::Acquire => lease.kind.read,
            What::Extend => match lease.kind.alone() {
                Some(alone) => alone.read,
                None => |frame: &_| Answer::of_extend(frame, 0, 1),
            },
            What::Repair if lease.kind.alone().is_some() => lease.kind.read,
            What::Release => lease.kind.means().read_release,
            _ => Answer::of_owned,
        };
        // For a lock without a token, by a script or not: a late answer may be to an earlier command.
        let may_be_script = !lease.kind.is_fenced && !lease.kind.means().are_steps;
        let or_script = what == What::Acquire && may_be_script;
        let answer = reply.map_or(Answer::UNKNOWN, |reply| {
            let (frame, error) = (reply.frame.value(), reply.frame.error());
            let by_script = || if or_script { (FENCED.read)(frame) } else { None };
            read(frame).or_else(by_script).unwrap_or_else(|| match error {
                Some(error) => self.answer_of_error(error),
                None => self.is_nonsense(server),
            })
        });
        self.came_to(server, (id, at), (round, what), (reply, answer), now);
    }

    /// If the reply is none of our scripts', the script may have done anything, and its connection ends (safety rule 13).
    #[cold]
    pub(crate) fn is_nonsense(&mut self, server: usize) -> Answer {
        self.links[server].talk.is_nonsense = true;
        Answer::UNKNOWN
    }

    /// Takes the answer to a command of a lease.
    pub(super) fn came_to(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        (round, what): (u32, What),
        (reply, answer): (Option<&Reply>, Answer),
        now: Moment,
    ) {
        // An answer that is not believed is no answer for the user.
        let is_granted = matches!(answer, Answer::Granted(_));
        let answer = self.believed((id, server), (round, what), answer, now);
        let refused_at = self.links[server].refused_at;
        if is_granted && refused_at.is_some_and(|at| now.since(at) >= RESEND_GAP) {
            self.sends_owed(server, now);
        }
        match what {
            #[cfg(any(test, feature = "scriptless"))]
            What::Acquire if self.is_taken(id, at, round, answer, reply) => {}
            What::Acquire
                if self.is_freed_now(id, at, answer) && self.repeat((id, at), round, what, now) => {
            }
            What::Acquire => {
                if let (Some(reply), false) = (reply, is_granted) {
                    self.keep_said(id, at, round, &reply.frame);
                    if self.asks_holder(id, at, round, &reply.frame, now) {
                        return;
                    }
                }
                self.voted(id, at, round, answer, reply.is_some(), now);
            }
            What::Repair => self.repaired(id, at, round, answer),
            _ => {
                if let (Some(reply), Answer::Failed { .. }) = (reply, answer) {
                    self.keep_refusal(id, at, round, &reply.frame);
                }
                if what == What::Extend {
                    self.extended(id, at, round, answer, now);
                } else {
                    self.given_back(id, (at, round), answer, reply.is_none(), now);
                }
            }
        }
    }

    /// Whether a lock is free by now that a batch had not released for a former lease.
    fn is_freed_now(&self, id: LeaseId, at: usize, answer: Answer) -> bool {
        let lease = |id| self.leases.get(id);
        let is_releasing = |it: &Lease| it.replicas[at].has == Has::Releasing;
        let is_freed = |key| self.freeing.get(key).and_then(lease).is_some_and(is_releasing);
        matches!(answer, Answer::Held { .. }) && lease(id).is_some_and(|it| it.keys().any(is_freed))
    }

    /// A server serves again: the releases that have waited for that are sent.
    fn sends_owed(&mut self, server: usize, now: Moment) {
        self.links[server].refused_at = None;
        for id in std::mem::take(&mut self.links[server].owed) {
            let Some(lease) = self.leases.get_mut(id) else { continue };
            for replica in &mut lease.replicas {
                let is_its = usize::from(replica.link) == server;
                if is_its && std::mem::take(&mut replica.is_listed) && replica.has == Has::Owed {
                    replica.due = Some(now);
                }
            }
            self.give_back_again(id, now);
            self.release_is_late(id, now);
        }
    }

    /// The answer that an error is. After a redirect that led nowhere, another node may answer the next time.
    pub(super) fn answer_of_error(&self, text: &[u8]) -> Answer {
        match Answer::of_error(text) {
            Answer::Failed { is_run: false, .. } if self.is_by_slots() => Answer::NOT_RUN,
            answer => answer,
        }
    }

    /// # Errors
    ///
    /// Why the server may not vote on this connection.
    fn is_ready(&mut self, server: usize, greeted: Handshake, now: Moment) -> Result<(), Fault> {
        #[cfg(any(test, feature = "cluster"))]
        let is_anew = self.check_node(greeted.nodes)?;
        let Handshake { talk, info, .. } = greeted;
        self.batches.is_refused = false;
        self.generations = self.generations.wrapping_add(1);
        self.links[server].adopt(talk, self.generations);
        let is_another_run = self.meet(server, &info, now)?;
        let link = &mut self.links[server];
        (link.state, link.ready_at, link.fault) = (State::Ready, now, None);
        link.is_down = false;
        #[cfg(any(test, feature = "credentials"))]
        link.is_logged_in(greeted.login.lasts, (self.settings.random)());
        self.meets_reign(server, now);
        // It answers again, whatever it left unanswered before.
        self.note_answer(server);
        self.sends_owed(server, now);
        // Keys that the former connection tracked are read again; at another run at once, before all that waits.
        self.held_changed_at(server, now);
        self.renews_again(server, now);
        #[cfg(any(test, feature = "sentinel"))]
        let is_another_run = self.takes_over(server, now) || is_another_run;
        #[cfg(any(test, feature = "cluster"))]
        let is_another_run = is_another_run || is_anew;
        if is_another_run {
            self.look_for_leases(server, now);
        }
        self.go_on(server, now);
        self.serves_again(server, now);
        self.tell_of_meeting();
        self.note(now);
        Ok(())
    }
}

impl Machine {
    /// Handles an error to any command; returns whether the command was sent again.
    #[cold]
    pub(super) fn ask_again(&mut self, server: usize, reply: &Reply, now: Moment) -> bool {
        let text = reply.frame.error().map(|text| String::from_utf8_lossy(text));
        let text = text.unwrap_or_default();
        let clocked = Form::Clocked(self.settings.scripts.clock);
        let mut form = self.links[server].talk.form;
        // The form of this command.
        let mut its = form.max(Form::Whole);
        match Code::of(&text) {
            Code::NoScript if reply.form == Form::Digest => {}
            Code::Unsupported if reply.form < Form::Loaded && names_eval(&text) => {
                if reply.form == Form::Whole {
                    its = form.max(Form::Loaded);
                }
                form = its;
            }
            Code::Unscripted if reply.form < clocked && self.is_of_time(reply, &text) => {
                (form, its) = (clocked, clocked);
            }
            Code::Again => {}
            Code::ReadOnly => {
                self.leave_later(server, now);
                return false;
            }
            #[cfg(any(test, feature = "cluster"))]
            code @ (Code::Elsewhere | Code::Apart) if self.is_by_slots() => {
                return self.follow(server, reply, code, now);
            }
            // Other servers may have its slots by now.
            #[cfg(any(test, feature = "cluster"))]
            Code::Later if self.is_by_slots() && text.starts_with("CLUSTERDOWN") => {
                self.effects.push(Effect::Demoted(server));
                return false;
            }
            _ => return false,
        }
        self.links[server].talk.form = its;
        let is_asked = match reply.to {
            To::Lease { id, at, round, what } => {
                // A request that is on its way is before it now.
                if let (What::Release, Some(lease)) = (what, self.leases.get(id)) {
                    self.freeing.insert(lease.names.lock(), id);
                }
                self.repeat((id, at.into()), round, what, now)
            }
            To::Batch(batch, what) => self.batch_missed(server, batch, what, now),
            To::Call(id) => self.tell_callers(Happening::Missed(server, id), now),
            #[cfg(any(test, feature = "grace"))]
            To::Reign if its == Form::Loaded => {
                self.links[server].met.asked_at = None;
                self.look(server, now);
                true
            }
            _ => false,
        };
        self.links[server].talk.form = form;
        is_asked
    }

    /// Whether the server denied `TIME` to this command's script.
    fn is_of_time(&mut self, reply: &Reply, text: &str) -> bool {
        let script = match reply.to {
            #[cfg(any(test, feature = "_calls"))]
            To::Call(id) => {
                let call = self.calls.get_mut(id);
                call.and_then(|call| call.question.script()).map_or("", |script| script.text)
            }
            _ => self.settings.scripts.of_error(text.as_bytes()),
        };
        let is_it = |script| line_of(text, script).is_some_and(|line| has(line, "'TIME'"));
        // Valkey 9.1 does not name the script.
        is_it(script) || script.is_empty() && self.settings.scripts.all().any(|it| is_it(it.text))
    }

    /// Sends a command again, or its next piece, to the replica that has not run it.
    pub(super) fn repeat(
        &mut self,
        (id, at): (LeaseId, usize),
        round: u32,
        what: What,
        now: Moment,
    ) -> bool {
        let Self { links, leases, settings, command, .. } = self;
        command.bytes.clear();
        let Some(lease) = leases.get_mut(id) else { return false };
        let is_open = lease.round == round && lease.votes.answered() & 1 << at == 0;
        let (has, server) = (lease.replicas[at].has, lease.link(at));
        let link = &mut links[server];
        // The answer may be another server's: of a redirect, or to a piece.
        #[cfg(any(test, feature = "cluster"))]
        if !link.is_ready() {
            return lease.round == round && self.ask_later((id, at), what, now);
        }
        match what {
            // Also for a lease that the others have granted: otherwise a slow server that lacks the script would do nothing.
            What::Acquire if is_open && (lease.phase == Phase::Asking || lease.is_held()) => {
                if lease.votes.watched & 1 << at != 0 && !link.watch_next(now) {
                    lease.votes.watched &= !(1 << at);
                }
                lease.ask(what, (id, at), link, command, &settings.scripts, now);
            }
            What::Release if lease.round == round && has == Has::Releasing => {
                lease.ask(what, (id, at), link, command, &settings.scripts, now);
            }
            What::Holder | What::HolderTtl
                if lease.round == round && lease.phase == Phase::Asking =>
            {
                lease.ask_for_holder(what, (id, at), link, now);
            }
            What::Wait if lease.round == round && lease.phase == Phase::Queued => {
                (settings.waits.again)(self, id, now);
            }
            What::Extend if is_open && lease.is_held() => self.renew_at_one(server, at, &[id], now),
            What::Repair if lease.round == round && has == Has::Asked => {
                self.repair_at(at, id, now);
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests;
