//! Commands of several keys whose slot moves between two servers of a Redis Cluster: sent in pieces, key by key.
//!
//! While a slot moves, no server runs a command of several keys unless it has all of them (`TRYAGAIN`), and an
//! interrupted migration stays so until it is mended. A command of one key is always served: by the server that the slot
//! moves from while it has the key, and then by the other one, to which the first redirects (`ASK`).
//!
//! An acquire has three pieces then: one takes the lock, one mints a token by its counter, and one extends the lock.
//! Only the last reply issues the token. It proves that the owner had the lock without a gap, because no owner is
//! granted a lock twice; so the token was minted after those of all earlier holders, and before those of all later
//! ones, as with one script for both keys. The model `policy/model/apart.rs` checks this.
//!
//! The counters of several locks vote, as several servers do: each accepts the proposed token, or names the last one
//! that it has accepted, and then a larger one is proposed. So one token is above all that were issued for any of the
//! locks.
//!
//! The queue is not used meanwhile: waiters poll.

use leasehold_resp::Decimal;

use crate::machine::{FENCED, Kind, PLAIN, Question, Script, What};
use crate::names::Names;
use crate::policy::Ballot;
use crate::scripts::script;

const TAKE: Script = script!("take.lua");
const MINT: Script = script!("mint.lua");

/// Whether locks of this kind can be requested key by key.
pub(crate) fn by_keys(kind: &'static Kind) -> bool {
    let is_it = |known: &&'static Kind| std::ptr::eq(*known, kind);
    #[cfg(any(test, feature = "groups"))]
    if [&super::groups::GROUP, &super::groups::PART, &super::groups::TURN].iter().any(is_it) {
        return true;
    }
    [&FENCED, &PLAIN].iter().any(is_it)
}

/// Writes one of the pieces, numbered in their order.
pub(crate) fn spell(mut question: Question<'_>, what: What, piece: usize) {
    let locks = locks(&question);
    let count = locks.len();
    let Some(names) = locks.get(piece % count.max(1)) else { return };
    match (what, piece / count) {
        (What::Acquire, 0) => take(question, names),
        (What::Acquire, 1) => mint(&mut question, names, count == 1),
        (What::Acquire | What::Extend, _) => extend(question, names),
        // First the queues, so that no lock is handed to the owner that has just released it.
        (_, 0) if question.may_be_queued => release(question, &names.queue()),
        _ => release(question, names.lock()),
    }
}

#[cfg(any(test, feature = "groups"))]
use super::groups::names as locks;

#[cfg(not(any(test, feature = "groups")))]
fn locks<'a>(question: &Question<'a>) -> [&'a Names; 1] {
    [question.names]
}

fn take(question: Question<'_>, names: &Names) {
    let Question { command, owner, predecessor, ttl_ms, words, .. } = question;
    let ttl = Decimal::new(ttl_ms);
    let mut spelled: Vec<&[u8]> = vec![owner, &ttl, b"take"];
    // After the keys of a group and an empty word: the owners whose locks it may take over.
    if let Some(place) = words.iter().position(|word| word.is_empty()) {
        words[place + 1..].iter().for_each(|word| spelled.push(word));
    }
    spelled.extend(predecessor);
    command.call_whole(&TAKE, &[names.lock()], &spelled);
}

fn mint(question: &mut Question<'_>, names: &Names, is_only: bool) {
    let how = question.how_of(question.command.is_alone && is_only);
    let proposal = Decimal::new(question.ballot.map_or(0, Ballot::proposal));
    question.command.call_whole(&MINT, &[names.fence()], &[&proposal, how]);
}

fn extend(question: Question<'_>, names: &Names) {
    let Question { command, owner, ttl_ms, scripts, .. } = question;
    command.call(&scripts.extend, &[names.lock()], &[owner, &Decimal::new(ttl_ms)]);
}

fn release(question: Question<'_>, key: &[u8]) {
    let Question { command, owner, scripts, may_be_queued, .. } = question;
    let how: &[u8] = if may_be_queued { b"leave" } else { b"" };
    command.call(&scripts.release, &[key], &[owner, how]);
}
