//! Locks that pass to another process: taken from their holders, or left to a ticket.
//!
//! One script at each server takes the lock and accepts the token, so nobody comes between the former holder and the new
//! one; several servers vote as ever. Tokens rise as for any acquire, because a server accepts one only above its counter
//! (`policy/fence.rs`). A steal breaks exclusion on purpose: the former holder goes on until it learns of its loss. An
//! adoption does not: a ticket is an owner without a process, whose lock counts as free for a request that
//! names it; and a server that has lost the ticket grants nothing.
//!
//! A lost round is released like any other. The lock is free then on servers that had granted it: the victim, or
//! the ticket, may be without a quorum.
//!
//! `keep.lua` writes the ticket: from then on no late command of the former holder touches the key.

use std::time::Duration;

use leasehold_resp::Decimal;

use crate::machine::{
    Alone, Answer, FENCED, Kind, LeaseId, Machine, Means, PLAIN, Question, Script,
};
use crate::policy::{Ballot, Moment};
use crate::scripts::script;

pub(crate) const SEIZE: Script = script!("seize.lua");
pub(crate) const KEEP: Script = script!("keep.lua");

/// A lock that is taken from its holder: the word is the only owner's id that it may be taken from, or is empty.
pub(crate) static SEIZED: Kind = seized(&FENCED);
pub(crate) static SEIZED_PLAIN: Kind = seized(&PLAIN);

/// Extends a lease into a ticket instead of a release, for the ticket's life: the word is the value of its owner.
static TICKETED: Kind = Kind {
    alone: Some(Alone {
        extend: |question| {
            let Question { command, names, words, owner, ttl_ms, .. } = question;
            command.call_whole(&KEEP, &[names.lock()], &[owner, &Decimal::new(ttl_ms), &words[0]]);
        },
        read: Answer::of_owned,
        repair: |_| {},
        means: Means::SCRIPTS,
    }),
    ..seized(&FENCED)
};

/// Releases the same lock for its holder and for the ticket.
static RETURNED: Kind = Kind {
    release: |question| {
        let queue = question.names.queue();
        let keys = [question.names.lock(), question.names.fence(), &queue];
        let (keys, words) = (question.freed(&keys), [question.owner, b"", &question.words[0]]);
        question.command.call(&question.scripts.release, keys, &words);
    },
    ..seized(&FENCED)
};

const fn seized(becomes: &'static Kind) -> Kind {
    Kind {
        is_fenced: true,
        is_exclusive: true,
        // Its scripts set no tokens aside, and know no word that asks for that.
        goes_on: false,
        has_guard: true,
        acquire: |question| {
            let how = question.how();
            let Question { command, names, words, owner, ttl_ms, ballot, .. } = question;
            let (ttl, token) =
                (Decimal::new(ttl_ms), Decimal::new(ballot.map_or(0, Ballot::proposal)));
            let words = [owner, &ttl, &token, how, &words[0]];
            command.call_whole(&SEIZE, &[names.lock(), names.fence()], &words);
        },
        read: Answer::of_acquire,
        wait: None,
        release: |question| (FENCED.release)(question),
        alone: None,
        also: |_| &[],
        becomes: Some(becomes),
    }
}

/// Gives the lock of a lease to a ticket that is good for `within`, and at least for the rest of `hold_at_least`.
/// Returns the value of the ticket's owner; none if the lease is no longer held. [`Machine::poll_release`] has the
/// result; a ticket that no caller gets then has to be released by [`take_back`].
pub(crate) fn into_ticket(
    machine: &mut Machine,
    id: LeaseId,
    within: Duration,
    now: Moment,
) -> Option<Box<[u8]>> {
    let within_ms = u64::try_from(within.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let life_ms = within_ms.max(machine.rest_ms(id, now));
    let owner = machine.nobody(id, without_delay, now);
    let (words, life) = ([owner.clone()].into(), Duration::from_millis(life_ms));
    let is_held = machine.part(id, &TICKETED, words, life, now);
    is_held.then_some(owner)
}

/// Releases the lock of a ticket that no caller has: it is the ticket's at some servers, and its maker's at others.
pub(crate) fn take_back(machine: &mut Machine, id: LeaseId, now: Moment) {
    machine.take_back(id, &RETURNED, now);
}

/// The text of an owner's value without a lock-delay: a ticket has none.
fn without_delay(said: &[u8]) -> &[u8] {
    let Some(rest) = said.strip_prefix(b"+") else { return said };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &rest[digits..]
}
