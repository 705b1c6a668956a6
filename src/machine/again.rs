//! Replies that prove that a question did not run, and by which it goes out again on the same connection.
//!
//! `NOSCRIPT` is routine: SCRIPT FLUSH, a restart and a failover all lose the cache. It is answered by the script itself,
//! once, which loads it again. A server that knows no `EVALSHA` is sent all scripts themselves from there on, and one that
//! knows no `EVAL` each of them behind a `SCRIPT LOAD`. One that lets no script call `TIME` is sent them with another clock. A
//! script calls that before it writes what a second delivery would not find, or another has called it before on the same
//! link. `AGAIN` is what a script says that came to the bound of its work before it did what it was asked; it is called
//! until it has. No other reply is ever answered by sending again.
//!
//! The question keeps its time and its owner: a lease counts from when it was put first, and a question that nobody waits
//! for any more is not repeated.

use super::core::{Happening, Machine};
use super::ids::LeaseId;
use super::lease::{Has, Phase};
use super::script::Form;
use super::talk::{Reply, To, What};
use crate::policy::parts::has;
use crate::policy::{Code, Moment, line_of, names_eval};

impl Machine {
    /// Hears of an error, whichever command it answers; whether the command went out again.
    #[cold]
    pub(super) fn ask_again(&mut self, server: usize, reply: &Reply, now: Moment) -> bool {
        let text = reply.frame.error().map(|text| String::from_utf8_lossy(text));
        let text = text.unwrap_or_default();
        let clocked = Form::Clocked(self.settings.scripts.clock);
        let mut form = self.links[server].talk.form;
        // How this one is sent.
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
            _ => return false,
        }
        self.links[server].talk.form = its;
        let is_asked = match reply.to {
            To::Lease { id, at, round, what } => self.repeat((id, at.into()), round, what, now),
            To::Batch(batch) => {
                let members = self.batches.end(batch);
                let ids: Vec<_> = members.iter().map(|(id, _)| *id).collect();
                self.batches.reuse(members);
                self.renew_at_one(server, server, &ids, now);
                true
            }
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

    /// Whether it was `TIME` that the server let this question's script not call.
    fn is_of_time(&mut self, reply: &Reply, text: &str) -> bool {
        let script = match reply.to {
            #[cfg(any(test, feature = "_calls"))]
            To::Call(id) => {
                let script = self.calls.get_mut(id).and_then(|call| call.question.script);
                script.map_or("", |script| script.text)
            }
            _ => self.settings.scripts.of_error(text.as_bytes()),
        };
        let is_it = |script| line_of(text, script).is_some_and(|line| has(line, "'TIME'"));
        // Valkey 9.1 does not say in which script.
        is_it(script) || script.is_empty() && self.settings.scripts.all().any(|it| is_it(it.text))
    }

    /// Puts a question once more to the replica that has not run it.
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
        match what {
            // Also of one that the others have granted: else a slow server that lacks the script would do nothing.
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
