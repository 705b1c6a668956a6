//! Taking a lock from its holder: from anybody, which is stealing, or from the one owner that a ticket names.
//!
//! One script at each server takes the lock and accepts the token, so nobody comes between the former holder
//! and the new one; several servers vote as ever. Tokens rise as for any acquire, because a server accepts
//! one only above its counter (`policy/fence.rs`). What is stolen breaks exclusion on purpose: the former
//! holder goes on until it learns of its loss. What is adopted does not: a ticket's owner is nobody's (see
//! `ticket.rs`), so its lock is as good as free to an owner that names it, as a predecessor's is to its
//! successor; and a server that has lost it grants nothing.
//!
//! A round that is lost is given back like any other. Servers that had granted it are free then: a steal that
//! fails may leave its victim without a quorum, and an adoption that fails may leave its ticket without one.

use leasehold_resp::Decimal;

use super::answer::Answer;
use super::fanout::ask_all;
use super::hold::Hold;
use super::limit::Limit;
use super::order::Seize;
use super::parameters::Parameters;
use super::question::Question;
use super::round::Round;
use super::scripts;
use crate::policy::Ballot;
use crate::server::command::Command;

/// Asks all servers for the one lock, from any holder, or only from the owner that is named.
pub(super) async fn seize(hold: &Hold, from: &Seize, ballot: Ballot, limit: Limit) -> Round {
    let (ttl, token) = (hold.key_ms(), Decimal::new(ballot.proposal()));
    let from: &[u8] = match from {
        Seize::FromAnybody => b"",
        Seize::From(id) => &id[..],
    };
    let mut parameters = Parameters::of_keys(b"2");
    parameters.extend([hold.names[0].lock(), hold.names[0].fence()]);
    parameters.extend([hold.owner.value(), &ttl, &token]);
    parameters.extend([hold.how_judged(ballot, hold.is_alone()), from]);
    let commands = [Command::Script(scripts::seize(), parameters.words())];
    let question = Question::vote(&commands, Answer::of_acquire, limit);
    ask_all(hold, &question, Round::new(hold)).await
}
