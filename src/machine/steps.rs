//! A lock that is taken without a script, step by step, at a server that compares in `SET`.
//!
//! ```text
//! SET lock owner NX PX ttl        takes the lock
//! GET fence, TIME                 for the token: above the counter, and not behind the clock
//! SET fence token IFEQ counter    mints the token; with NX if there is no counter
//! SET lock owner IFEQ owner PX    proves that the lock is still the owner's
//! ```
//!
//! The first three commands go out in one write, and the last two in another. Only the reply to the last one grants the
//! lock, and only if the fourth minted the token. That is enough: an owner takes the lock at most once between its last
//! `NX` and its proof, because both are on one connection, in this order; and no other client writes the owner's value. So
//! the owner had the lock without a gap when the token was minted. Earlier owners had minted before, and later owners read
//! a counter that this token has raised. The model `policy/model/steps.rs` checks this.
//!
//! If the counter has changed since it was read, it is read again. If a reply is late and the owner repeats its request, it
//! does not take the lock again: it mints, and proves that the first request has taken the lock.
//!
//! Without `IFEQ` a server could not release what it grants. So the first command of each connection is
//! the proof alone, which changes nothing, and no lock is taken before its reply.

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::answer::{Answer, Place};
use super::command::{Command, Scripts};
use super::core::Machine;
use super::drawn::Counter;
use super::ids::LeaseId;
use super::kind::Means;
use super::lease::{Has, Lease, Phase};
use super::link::Link;
use super::report::is_no_lock;
use super::rules;
use super::talk::{Reply, Step, What};
use crate::policy::{Code, Drawn, Moment, TOKEN_MAX, number};

/// As long as scripts keep an idle counter.
const FENCE_LIFE_MS: &[u8] = b"604800000";
const NO_NUMBER: &str =
    "FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53";
/// The error of a server without IFEQ, which all servers have but for old ones; and the advice instead.
const NO_IFEQ: (&str, &str) = (
    "ERR syntax error",
    "ERR syntax error; without scripts a lock takes SET .. IFEQ: a server of Redis 8.4 or Valkey 8.1 or later \
     (docs/managed.md)",
);

impl Lease {
    /// Requests the lock; first on a connection, tests whether the server has IFEQ.
    pub(super) fn ask_in_steps(
        &self,
        (id, at): (LeaseId, usize),
        link: &mut Link,
        command: &mut Command,
        scripts: &Scripts,
        now: Moment,
    ) {
        let (to, is_fenced) = (|what| self.to(id, at, what), self.kind.is_fenced);
        let is_again = self.replicas[at].has == Has::Perhaps;
        command.bytes.clear();
        if !link.talk.compares {
            self.is_its(at, command, scripts);
            link.talk.say(command, to(What::Step(Step::Compares)), now);
        } else if is_again && !is_fenced {
            self.is_its(at, command, scripts);
            link.talk.say(command, to(What::Acquire), now);
        } else {
            if !is_again {
                (self.kind.acquire)(self.question(at, command, scripts));
                link.talk.say(command, to(What::Acquire), now);
            }
            if is_fenced {
                self.draw((id, at), link, now);
            }
        }
        command.bytes.clear();
    }

    /// Encodes the proof that the lock is the owner's, which also extends the lock to its TTL.
    fn is_its(&self, at: usize, command: &mut Command, scripts: &Scripts) {
        command.bytes.clear();
        if let Some(alone) = self.kind.alone() {
            (alone.extend)(self.question(at, command, scripts));
        }
    }

    fn draw(&self, (id, at): (LeaseId, usize), link: &mut Link, now: Moment) {
        let to = |step| self.to(id, at, What::Step(step));
        link.talk.write(&[b"GET", self.names.fence()], Place::Text, to(Step::Counter), now);
        link.talk.write(&[b"TIME"], Place::Any, to(Step::Clock), now);
    }

    fn mint(&self, (id, at): (LeaseId, usize), link: &mut Link, now: Moment) {
        let steps = &self.replicas[at].steps;
        let (fence, token) = (self.names.fence(), Decimal::new(steps.token));
        let head: [&[u8]; 3] = [b"SET", fence, &token];
        let life: [&[u8]; 2] = [b"PX", FENCE_LIFE_MS];
        let condition: &[&[u8]] = match steps.counter.text() {
            Some(counter) => &[b"IFEQ", counter],
            None => &[b"NX"],
        };
        let words = [&head, condition, &life].concat();
        link.talk.write(&words, Place::Flag, self.to(id, at, What::Step(Step::Minted)), now);
    }

    /// Whether the command of this round at this index is still to be answered.
    fn is_open(&self, at: usize, round: u32) -> bool {
        let is_asked = self.phase == Phase::Asking || self.is_held();
        is_asked && self.round == round && self.votes.answered() & 1 << at == 0
    }
}

impl Means {
    /// Values are compared whole, so that no mark is ever added.
    pub(crate) const STEPS: Self = Self {
        read_release: Answer::of_compared,
        know_marks: false,
        read_the_lock: false,
        are_steps: true,
    };
}

impl Answer {
    /// The reply of the `SET` that takes the lock: one command, which a server that cannot serve now does not run.
    pub(crate) fn of_taken(reply: &Frame) -> Option<Self> {
        let is_later = |text: &&Bytes| !Code::of_bytes(text).is_lasting();
        let refused = || reply.error().filter(is_later).map(|_| Self::NOT_RUN);
        Self::of_set(reply).or_else(refused)
    }

    /// The reply of a `SET` that compares with the owner's value: a missing key is not the owner's.
    pub(crate) fn of_compared(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Simple(_) => Some(Self::Granted(None)),
            Frame::Null => Some(Self::NotOwned),
            _ => reply.error().filter(|text| is_no_lock(text)).map(|_| Self::NotOwned),
        }
    }
}

impl Machine {
    /// A server has given the owner the lock; returns whether that counts only with a token.
    pub(super) fn is_taken(
        &mut self,
        id: LeaseId,
        at: usize,
        round: u32,
        answer: Answer,
        reply: Option<&Reply>,
    ) -> bool {
        let Some(lease) = self.leases.get_mut(id) else { return false };
        let is_first = lease.kind.means().are_steps && lease.kind.is_fenced && reply.is_some();
        let is_granted = matches!(answer, Answer::Granted(_));
        if !is_first || !is_granted || !lease.is_open(at, round) {
            return false;
        }
        lease.replicas[at].steps.is_taken = true;
        true
    }

    /// A server has answered a step, or never will.
    pub(super) fn stepped(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        (round, step): (u32, Step),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        let knows = step == Step::Compares && reply.is_some_and(|it| it.frame.error().is_none());
        self.links[server].talk.compares |= knows;
        if reply.is_some() {
            self.note_answer(server);
        }
        let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.is_open(at, round)) else {
            return;
        };
        let replica = &mut lease.replicas[at];
        let steps = &mut replica.steps;
        // Otherwise the refusal is enough.
        let is_on = steps.is_taken || replica.has == Has::Perhaps || step == Step::Compares;
        let Some(reply) = reply.filter(|_| is_on) else {
            if is_on {
                self.voted(id, at, round, Answer::UNKNOWN, false, now);
            }
            return;
        };
        if reply.frame.error().is_some() {
            return self.is_refused_a_step(id, at, (round, step), &reply.frame, now);
        }
        let value = reply.frame.value();
        match (step, value) {
            (Step::Compares, _) => {
                // The owner's first request on this connection.
                replica.has = Has::Asked;
                self.repeat((id, at), round, What::Acquire, now);
            }
            (Step::Counter, value) => steps.counter = Counter::of(value.as_bytes()),
            (Step::Clock, value) => match micros(value) {
                Some(clock) => self.has_drawn(server, (id, at), round, clock, now),
                None => self.nonsensical(server, (id, at), round, now),
            },
            (Step::Minted, value) => steps.is_minted = matches!(value, Frame::Simple(_)),
            (Step::Proved, value) => {
                let is_its = rules::is_proved(matches!(value, Frame::Simple(_)));
                let (is_minted, token) = (steps.is_minted, steps.token);
                match (is_its, is_minted) {
                    (true, true) => {
                        self.voted(id, at, round, Answer::Granted(Some(token)), true, now);
                    }
                    (true, false) => lease.draw((id, at), &mut self.links[server], now),
                    (false, _) => {
                        let answer = Answer::Held { frees_in: None, counter: 0 };
                        self.came_to(
                            server,
                            (id, at),
                            (round, What::Acquire),
                            (Some(reply), answer),
                            now,
                        );
                    }
                }
            }
        }
    }

    fn nonsensical(&mut self, server: usize, (id, at): (LeaseId, usize), round: u32, now: Moment) {
        let answer = self.is_nonsense(server);
        self.voted(id, at, round, answer, true, now);
    }

    /// An error instead of a step: an earlier step may have taken the lock.
    fn is_refused_a_step(
        &mut self,
        id: LeaseId,
        at: usize,
        (round, step): (u32, Step),
        said: &Frame,
        now: Moment,
    ) {
        let lacks_ifeq = step == Step::Compares && said.error().is_some_and(|it| it == NO_IFEQ.0);
        let advised = Frame::Error(Bytes::from_static(NO_IFEQ.1.as_bytes()));
        let said = if lacks_ifeq { &advised } else { said };
        let answer = said.error().map_or(Answer::UNKNOWN, |text| self.answer_of_error(text));
        let answer = match answer {
            Answer::Failed { failing, .. } => {
                Answer::Failed { failing, is_run: step != Step::Compares }
            }
            answer => answer,
        };
        self.keep_said(id, at, round, said);
        self.voted(id, at, round, answer, true, now);
    }

    /// Counter and clock are known: mints the token, if the ballot allows one.
    fn has_drawn(
        &mut self,
        server: usize,
        (id, at): (LeaseId, usize),
        round: u32,
        clock: u64,
        now: Moment,
    ) {
        let Self { links, leases, settings, command, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let (is_alone, ballot) = (lease.is_alone(), lease.bid.ballot());
        let replica = &mut lease.replicas[at];
        let steps = &mut replica.steps;
        let counter = steps.counter.number();
        let drawn = counter.and_then(|it| Some(ballot?.drawn(it, clock, is_alone)));
        let answer = match drawn {
            Some(Drawn::Token(token)) if token <= TOKEN_MAX => {
                (steps.token, steps.is_minted) = (token, false);
                let link = &mut links[server];
                lease.mint((id, at), link, now);
                command.form = link.talk.form;
                lease.is_its(at, command, &settings.scripts);
                link.talk.say(command, lease.to(id, at, What::Step(Step::Proved)), now);
                command.bytes.clear();
                return;
            }
            Some(Drawn::Token(_)) | None => {
                let said = Frame::Error(Bytes::from_static(NO_NUMBER.as_bytes()));
                return self.is_refused_a_step(id, at, (round, Step::Clock), &said, now);
            }
            Some(Drawn::Stale) => Answer::Stale { counter: counter.unwrap_or(0) },
            Some(Drawn::Ahead) => Answer::Ahead { clock },
        };
        // Unlike after a script, the owner has the lock.
        replica.has = Has::Key;
        self.voted(id, at, round, answer, true, now);
    }
}

/// The clock of a server.
fn micros(time: &Frame) -> Option<u64> {
    let Frame::Array(items) = time else { return None };
    let [seconds, micros] = &items[..] else { return None };
    let read = |frame: &Frame| frame.as_bytes().and_then(|text| number::<u64>(text));
    read(seconds)?.checked_mul(1_000_000)?.checked_add(read(micros)?)
}

#[cfg(test)]
mod tests;
