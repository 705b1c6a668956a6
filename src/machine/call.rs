//! Calls without a lease: a command to one server, whose reply the caller decodes.
//!
//! A call that only reads may be *watched*: after its reply it stays until its caller forgets it, and the caller is told when
//! its key changes: by a push, or by the reply to another command of this machine, because a server does not tell a connection
//! of its own changes.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::calls::{Call, Called, State, UnderWay};
use super::core::{Effect, Happening, Machine};
use super::ids::CallId;
use super::lease::Refusal;
use super::talk::Reply;
use crate::policy::{Failing, Moment};

impl Machine {
    /// Handles an event for calls; returns whether nothing else is left to do.
    pub(super) fn callers_hear(&mut self, happening: Happening<'_>, now: Moment) -> bool {
        match happening {
            Happening::Tried(server) => {
                let mut waiting = Vec::new();
                for (id, call) in self.calls.all() {
                    if call.server == server && matches!(call.state, State::Waiting) {
                        waiting.push(id);
                    }
                }
                waiting.into_iter().for_each(|id| self.put_call(id, now));
            }
            Happening::Missed(server, id) => {
                let Self { links, calls, .. } = self;
                // Even if the call has no caller any more.
                links[server].talk.brought.clear();
                let Some(call) = calls.get_mut(id) else { return false };
                call.server = server;
                if !call.may_be_missed() {
                    return false;
                }
                if links[server].is_ready() {
                    self.put_call(id, now);
                } else {
                    call.state = State::Waiting;
                    self.begin_call(id, now);
                }
                return true;
            }
            Happening::Replied(id, reply) => self.called(id, reply, now),
            Happening::Changed(key) => {
                let Self { calls, effects, .. } = self;
                calls.each_watching(key, &mut |call| call.is_told(effects));
            }
            Happening::Answered(id) => {
                let Self { leases, calls, effects, .. } = self;
                if let Some(lease) = leases.get(id).filter(|_| calls.are_watched()) {
                    let tell = &mut |call: &mut UnderWay| call.is_told(effects);
                    lease.keys().for_each(|key| calls.each_watching(Some(key), tell));
                }
            }
            Happening::Closed => {
                let Self { calls, effects, .. } = self;
                for (_, call) in calls.all() {
                    call.is_told(effects);
                    if matches!(call.state, State::Waiting | State::Asked) {
                        call.end(Called::Unknown, effects);
                    }
                }
            }
        }
        false
    }

    /// Asks a server. [`Machine::poll_call`] has the result.
    pub(crate) fn call(&mut self, server: usize, question: Call, now: Moment) -> CallId {
        #[cfg(any(test, feature = "cluster"))]
        if self.is_by_slots() {
            let key = question.keys.get(usize::from(question.script.is_none()));
            let link = self.link_of_key(key.map_or(&[], |key| key));
            return self.call_at(link, question, now);
        }
        self.call_at(server, question, now)
    }

    /// Asks the server at this link, without routing by slots.
    pub(crate) fn call_at(&mut self, server: usize, question: Call, now: Moment) -> CallId {
        let state = State::Waiting;
        let (is_tracked, is_told) = (false, false);
        let call =
            UnderWay { server, question, state, is_tracked, is_told, missed: 0, waker: None };
        let id = self.calls.insert(Box::new(call));
        self.begin_call(id, now);
        id
    }

    fn begin_call(&mut self, id: CallId, now: Moment) {
        let (is_alone, is_undriven) = (self.is_alone(), self.is_undriven);
        let Self { links, calls, settings, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let (link, acts) = (&mut links[call.server], call.question.acts());
        let is_left_out = acts && !is_alone && link.left_out(now, settings.random).is_some();
        if is_undriven {
            call.end(Called::Unreached, effects);
        } else if is_left_out {
            let left = link.breaker.opens_in(now).unwrap_or_default();
            call.end(Called::LeftOut(left), effects);
        } else if !link.is_ready() && !link.is_down {
            if link.want(now) {
                self.note(now);
            }
        } else {
            self.put_call(id, now);
        }
    }

    /// Sends it, or says why not.
    fn put_call(&mut self, id: CallId, now: Moment) {
        self.flush(now);
        let Self { links, calls, settings, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let link = &mut links[call.server];
        match link.refusal(now) {
            Some(Failing::Quarantined(wait)) if call.question.acts() => {
                call.end(Called::Quarantined(wait), effects);
            }
            None | Some(Failing::Quarantined(_)) => call.ask(id, links, settings.owner_id, now),
            Some(_) => {
                call.end(Called::Unreached, effects);
                if link.want(now) {
                    self.note(now);
                }
            }
        }
    }

    /// Takes the reply to a call; none if its connection ended.
    fn called(&mut self, id: CallId, reply: Option<&Reply>, now: Moment) {
        let Self { calls, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let (server, acts) = (call.server, call.question.acts());
        let is_changed = reply.is_some_and(|reply| call.question.has_changed(&reply.frame));
        let keys = std::mem::take(&mut call.question.keys);
        let script = call.question.script().map_or("", |script| script.text);
        let called = match reply.map(|reply| (&reply.frame, reply.frame.error())) {
            Some((frame, None)) => Called::Replied(frame.clone()),
            Some((_, Some(text))) => {
                Called::Refused { text: text.clone(), script, keys: keys.clone() }
            }
            None => Called::Unknown,
        };
        call.end(called, effects);
        if is_changed {
            // A server does not tell a connection of its own changes. The call itself has no keys here, so it is not told.
            keys.iter().for_each(|key| self.changed(Some(key), now));
        }
        if let Some(call) = self.calls.get_mut(id) {
            call.question.keys = keys;
        }
        if acts && reply.is_some() {
            self.note_answer(server);
        } else if reply.is_none() {
            self.note_failures(bit(server), now);
        }
    }

    /// The result of a call, once, and the link where it was asked last. This forgets the call, unless it is watched.
    pub(crate) fn poll_call(&mut self, id: CallId, context: &Context<'_>) -> Poll<(usize, Called)> {
        let call = self.calls.get_mut(id).expect("nobody has forgotten it");
        if !matches!(call.state, State::Ended(_)) {
            call.wait(context.waker(), &mut self.effects);
            return Poll::Pending;
        }
        let State::Ended(called) = std::mem::replace(&mut call.state, State::Watching) else {
            return Poll::Pending;
        };
        let server = call.server;
        if call.question.watched.is_none() {
            self.calls.remove(id);
        }
        Poll::Ready((server, called))
    }

    /// How long the first reply took on the connection where a call was sent last.
    pub(crate) fn greeted_in(&mut self, id: CallId) -> Duration {
        self.calls
            .get_mut(id)
            .map_or(Duration::ZERO, |call| self.links[call.server].talk.greeted_in)
    }

    /// Ready once the key of a watched call has changed since the call was sent.
    pub(crate) fn poll_news(&mut self, id: CallId, context: &Context<'_>) -> Poll<()> {
        match self.calls.get_mut(id).filter(|call| !call.is_told) {
            None => Poll::Ready(()),
            Some(call) => {
                call.wait(context.waker(), &mut self.effects);
                Poll::Pending
            }
        }
    }

    /// Forgets a call without its result. If the answer `is_late`, its server has not answered.
    pub(crate) fn forget_call(&mut self, id: CallId, is_late: bool, now: Moment) {
        let Some(call) = self.calls.remove(id) else { return };
        self.effects.extend(call.waker.map(Effect::Drop));
        if !matches!(call.state, State::Asked) {
            return;
        }
        if call.question.acts() {
            // It may still change its keys. Later calls for them come after it.
            let Self { calls, effects, .. } = self;
            let tell = &mut |call: &mut UnderWay| call.is_told(effects);
            call.question.keys.iter().for_each(|key| calls.each_watching(Some(key), tell));
        }
        if is_late {
            self.note_failures(bit(call.server), now);
        }
    }

    /// Whether the server tells of changes to the key of a watched call.
    pub(crate) fn tells_of(&mut self, id: CallId) -> bool {
        let Self { links, calls, .. } = self;
        calls.get_mut(id).is_some_and(|call| {
            let link = &links[call.server];
            call.is_tracked && link.is_ready() && link.talk.told.is_tracking
        })
    }

    /// How long a server that may have forgotten leases may not vote; none if it may now, or has no connection.
    pub(crate) fn votes_in(&self, server: usize, now: Moment) -> Option<Duration> {
        match self.links[server].refusal(now) {
            Some(Failing::Quarantined(wait)) => Some(wait),
            _ => None,
        }
    }

    /// Whether the machine was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed == Some(Refusal::ShutDown)
    }
}

impl UnderWay {
    /// See [`Machine::wait_for`].
    fn wait(&mut self, waker: &Waker, effects: &mut Vec<Effect>) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            let known = self.waker.replace(waker.clone());
            effects.extend(known.map(Effect::Drop));
        }
    }

    fn end(&mut self, called: Called, effects: &mut Vec<Effect>) {
        // A refused call has read nothing.
        self.is_tracked &= matches!(called, Called::Replied(_));
        self.state = State::Ended(called);
        effects.extend(self.waker.take().map(Effect::Wake));
    }

    fn is_told(&mut self, effects: &mut Vec<Effect>) {
        self.is_told = true;
        if let State::Watching = self.state {
            effects.extend(self.waker.take().map(Effect::Wake));
        }
    }
}

/// The bit of a server. Several servers that vote are few.
fn bit(server: usize) -> u64 {
    1_u64.checked_shl(u32::try_from(server).unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
