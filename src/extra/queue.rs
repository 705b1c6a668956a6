//! Waiting in the queue of a lock at its server: `scripts/queue.lua` has the queue, and [`crate::policy::WaiterState`]
//! says what a waiting owner may conclude.
//!
//! The first of each line of this process has an entry, once the server has confirmed the channel for hand-overs.
//! The owner says every third of the entry's life that it still waits. The entry stays on one connection: when that
//! ends, or the server no longer knows the owner, another owner enters. An entry ends with a release that leaves the
//! queue, on the same connection; so a lock that is pushed to an owner that no longer waits is released unseen.
//!
//! If scripts may not call a command that the queue needs, such as `TIME`, the first polls instead.
//!
//! Of several servers one has the queue, the same for all processes. Its push is an owner's turn to ask all servers.

use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use crate::machine::{Entry, LeaseId, Machine, Waiting, Waits};
use crate::policy::{
    ASK_ALL_EACH, Ballot, Code, Moment, QueueAnswer, Setback, Shown, Term, WaiterAction,
    WaiterEvent, beat, entry_life, late_within, number,
};

/// See the module's documentation.
pub(crate) static QUEUE: Waits = Waits { refused, again: ask, answered, due, pushed };

fn refused(machine: &mut Machine, id: LeaseId, now: Moment) -> bool {
    machine.subscribe(now);
    let leader = machine.leader(id, now).filter(|server| machine.channel(*server).is_some());
    let Some(server) = leader.filter(|_| machine.may_enter(id)) else { return false };
    machine.enter(id, server, now);
    ask(machine, id, now);
    true
}

fn ask(machine: &mut Machine, id: LeaseId, now: Moment) {
    let Some((entry, Waiting { term, .. })) = machine.entry(id) else { return };
    let (server, how): (_, &[u8]) = (entry.server, if entry.is_known { b"beat" } else { b"enter" });
    let Some(channel) = machine.channel(server).map(<[u8]>::to_vec) else {
        return machine.comes_back(id, Setback::Held(None), now);
    };
    if machine.entry_must_look(id, server, now) {
        return plan_unasked(machine, id, now);
    }
    let life = u64::try_from(entry_life(term).as_millis()).unwrap_or(u64::MAX);
    machine.ask_for_entry(id, [how, &channel, &Decimal::new(life)], now);
    plan_unanswered(machine, id);
}

/// The command waits until the server's reign was queried.
fn plan_unasked(machine: &mut Machine, id: LeaseId, now: Moment) {
    let late_at = now.after(machine.settings().timeout);
    let Some((_, Waiting { retry, .. })) = machine.entry(id) else { return };
    machine.plan(id, late_within(late_at, retry.ends_at()));
}

/// The answer is late after the timeout; all of several servers are asked sooner.
fn plan_unanswered(machine: &mut Machine, id: LeaseId) {
    let (is_alone, timeout) = (machine.is_alone(), machine.settings().timeout);
    let Some((entry, Waiting { retry, .. })) = machine.entry(id) else { return };
    let late_at = entry.asked_at.after(timeout);
    let sooner = [all_due(entry, is_alone), retry.ends_at()].into_iter().flatten();
    machine.plan(id, sooner.fold(late_at, Moment::min));
}

/// A server's answer to an entry.
struct Said {
    answer: QueueAnswer,
    token: u64,
    before: u32,
    frees_at: Option<Moment>,
}

/// Reads the reply of `queue.lua`, whose stamp was checked.
fn read(reply: &Frame, asked_at: Moment) -> Option<Said> {
    let Frame::Array(items) = reply else { return None };
    let said = |answer| Said { answer, token: 0, before: 1, frees_at: None };
    let count = |before: i64| u32::try_from(before).unwrap_or(u32::MAX);
    Some(match items.get(1..)? {
        [Frame::Integer(0)] => said(QueueAnswer::Gone),
        [Frame::Bulk(word), Frame::Integer(token)] if word == "granted" => {
            Said { token: u64::try_from(*token).ok()?, ..said(QueueAnswer::Yours) }
        }
        [Frame::Bulk(word), Frame::Integer(before)] if word == "queued" => {
            Said { before: count(*before), ..said(QueueAnswer::Waiting { shown: None }) }
        }
        [
            Frame::Bulk(word),
            Frame::Bulk(_holder),
            Frame::Integer(pttl),
            Frame::Bulk(counter),
            Frame::Integer(before),
            Frame::Integer(clock),
        ] if word == "held" => {
            // A counter that another program has written shows nothing.
            let clock = u64::try_from(*clock).ok()?;
            let shown = number(counter).map(|counter| Shown { counter, clock, asked_at });
            let frees_in = u64::try_from(*pttl).ok().map(|ms| Duration::from_millis(ms + 1));
            let frees_at = frees_in.map(|frees_in| asked_at.after(frees_in));
            Said { before: count(*before), frees_at, ..said(QueueAnswer::Waiting { shown }) }
        }
        _ => return None,
    })
}

fn answered(machine: &mut Machine, id: LeaseId, reply: Option<&Frame>, now: Moment) {
    let Some((entry, Waiting { term, .. })) = machine.entry(id) else { return };
    let said = reply.and_then(|reply| read(reply.value(), entry.asked_at));
    let Some(Said { answer, token, before, frees_at }) = said else {
        let server = entry.server;
        let code = reply.and_then(Frame::error).map(|text| Code::of_bytes(text));
        match code {
            Some(Code::Unscripted) => {
                machine.has_no_queue(server);
                return machine.comes_back(id, Setback::Held(None), now);
            }
            Some(Code::Later) if machine.keeps_place(id, now) => return,
            _ => {}
        }
        let is_lasting = reply.is_some_and(|reply| machine.is_lasting(id, reply));
        // A reply that an acquire may also get is valid.
        if reply.is_some() && code.is_none() && !is_lasting {
            machine.is_nonsense(server);
        }
        // The others of several servers can do without this one.
        let is_over = is_lasting && machine.is_alone();
        let setback = if is_over { Setback::Hopeless } else { Setback::Failing };
        return machine.comes_back(id, setback, now);
    };
    (entry.is_known, entry.before, entry.frees_at) = (true, before, frees_at);
    let event = WaiterEvent::Answered { answer, asked_at: entry.asked_at };
    let action = entry.state.happens(event, term, now);
    if matches!(answer, QueueAnswer::Waiting { .. }) {
        machine.is_kept_waiting(id, before == 0, now);
    }
    act(machine, id, action, token, now);
}

fn pushed(machine: &mut Machine, server: usize, push: &[Frame], now: Moment) {
    let is = |item: &Frame, text: &[u8]| item.as_bytes().is_some_and(|word| word[..] == *text);
    match push {
        [kind, Frame::Array(keys)] if is(kind, b"invalidate") => {
            for key in keys.iter().filter_map(Frame::as_bytes) {
                machine.changed(Some(key), now);
            }
        }
        // The server forgot all keys.
        [kind, Frame::Null] if is(kind, b"invalidate") => machine.changed(None, now),
        [kind, channel, Frame::Bulk(told)]
            if is(kind, b"message")
                && machine.channel(server).is_some_and(|own| is(channel, own)) =>
        {
            handed_over(machine, server, told, now);
        }
        // A push that was not asked for.
        _ => {}
    }
}

/// Reads the message that an owner has the lock: the token, a space, and the owner's value.
fn handed_over(machine: &mut Machine, server: usize, told: &[u8], now: Moment) {
    let Some(space) = told.iter().position(|byte| *byte == b' ') else { return };
    let (token, owner) = (number(&told[..space]), &told[space + 1..]);
    let (Some(token), Some(id)) = (token, machine.waiter(owner, server)) else { return };
    let Some((entry, Waiting { term, .. })) = machine.entry(id) else { return };
    let action = entry.state.happens(WaiterEvent::Pushed { token }, term, now);
    machine.is_woken();
    act(machine, id, action, token, now);
}

fn act(machine: &mut Machine, id: LeaseId, action: WaiterAction, token: u64, now: Moment) {
    match action {
        // Without a token it is no grant: the server is asked.
        WaiterAction::Hold { counts_from }
            if Ballot::new(0).accepts(token, true) && is_given(machine, id, now) =>
        {
            machine.granted(id, counts_from, token, now);
        }
        WaiterAction::Hold { .. } | WaiterAction::Ask => due(machine, id, now),
        WaiterAction::ComeBack => machine.is_gone(id, now),
        WaiterAction::Wait => plan(machine, id, now),
    }
}

/// Whether a grant by the entry's server is believed.
fn is_given(machine: &mut Machine, id: LeaseId, now: Moment) -> bool {
    let server = machine.entry(id).map(|(entry, _)| entry.server);
    server.is_some_and(|server| machine.is_given_by_queue(server, now))
}

/// Plans the next command: a third of the entry's life after the last one, or sooner at the end of the holder's lease,
/// and before the limit.
fn plan(machine: &mut Machine, id: LeaseId, now: Moment) {
    let is_alone = machine.is_alone();
    let Some((entry, Waiting { term, retry })) = machine.entry(id) else { return };
    let next = entry.asked_at.after(beat(term, is_alone));
    let frees_at = entry.frees_at.filter(|_| entry.before == 0);
    let next = frees_at.map_or(next, |at| next.min(at.max(entry.asked_at.after(entry.pause))));
    let all = all_due(entry, is_alone);
    let next = all.map_or(next, |at| next.min(at));
    // The answer may be from before the change.
    let is_told = entry.is_told && entry.before == 0;
    let next = if is_told { next.min(soonest(entry, term, is_alone)) } else { next };
    let limit = retry.last_word_at(now).or(retry.ends_at());
    machine.plan(id, late_within(next, limit).max(now));
}

/// The next command after a change; the place is kept whatever the retry policy says.
fn soonest(entry: &Entry, term: Term, is_alone: bool) -> Moment {
    entry.asked_at.after(entry.pause.min(beat(term, is_alone)))
}

/// When an entry has all of several servers asked: if it is the first, or the one with the queue does not answer.
fn all_due(entry: &Entry, is_alone: bool) -> Option<Moment> {
    let asks_all = !is_alone && (entry.before == 0 || entry.unanswered_since.is_some());
    asks_all.then(|| entry.all_asked_at.after(ASK_ALL_EACH))
}

/// Says that the owner still waits, unless it said so a moment ago; or gives up a command without an answer.
fn due(machine: &mut Machine, id: LeaseId, now: Moment) {
    let (is_alone, timeout) = (machine.is_alone(), machine.settings().timeout);
    let Some((entry, Waiting { term, retry })) = machine.entry(id) else { return };
    let is_told = entry.unanswered_since.is_none() && std::mem::take(&mut entry.is_told);
    let from = soonest(entry, term, is_alone);
    if all_due(entry, is_alone).is_some_and(|at| at <= now) {
        entry.all_asked_at = now;
        machine.ask_all(id, now);
    }
    if is_told {
        machine.is_woken();
    }
    let Some((entry, _)) = machine.entry(id) else { return };
    let is_answered = entry.unanswered_since.is_none();
    if retry.is_over(now) {
        machine.is_out_of_time(id, now);
    } else if is_answered && from <= now {
        ask(machine, id, now);
    } else if is_answered {
        machine.plan(id, late_within(from, retry.ends_at()));
    } else if entry.asked_at.after(timeout) > now {
        plan_unanswered(machine, id);
    } else if is_alone && entry.state.has_place(term, now) {
        // The answer is late, and the entry lives: the same command goes after the first, where it costs nothing.
        ask(machine, id, now);
    } else {
        machine.comes_back(id, Setback::Failing, now);
    }
}

#[cfg(test)]
mod tests;
