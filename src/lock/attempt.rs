//! One attempt at a lock, by one owner.

use std::time::Duration;

use super::acquire_mode::Taking;
use super::claim::Claim;
use super::core::Lead;
use super::direct::{self, may_draw, note_seeded};
use super::held::Held;
use super::hold::Hold;
use super::limit::Limit;
use super::names::title;
use super::order::{Seize, Wish};
use super::round::Round;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, Kind, Report};
#[cfg(test)]
use crate::policy::mutants::Mutant;
use crate::policy::{Ballot, Moment, Setback, Verdict};

/// How often one attempt proposes a token: contenders outbid one another only while they overlap.
const PROPOSALS_MAX: usize = 4;

/// Why one attempt came to nothing.
pub(super) struct Refused {
    pub(super) setback: Setback,
    pub(super) round: Round,
    pub(super) hold: Held,
}

impl Refused {
    /// The error that it is, where there is no other try: because the wait is over, which was this
    /// long, or for another reason.
    pub(super) fn error(&self, wish: &Wish, waited: Option<Duration>) -> Error {
        let kind = match self.setback {
            Setback::Held(_) | Setback::Watched(_) => match wish.order.seize {
                Some(Seize::From(_)) => Kind::Spent,
                _ => Kind::Contended { waited },
            },
            Setback::TooLate => Kind::TooLate,
            Setback::Hopeless => Kind::NoQuorum { waited, is_final: true },
            Setback::Failing | Setback::Quarantined(_) => {
                Kind::NoQuorum { waited, is_final: false }
            }
        };
        Error::new(kind, title(&wish.names), self.round.report(&self.hold))
    }
}

pub(super) fn shut_down(wish: &Wish) -> Error {
    Error::new(Kind::ShutDown, title(&wish.names), Report::default())
}

/// How to ask for a lock, and until when.
pub(super) struct Bid {
    pub(super) is_fenced: bool,
    /// Whether nobody who waits may be overtaken, at the price of a script.
    pub(super) is_fair: bool,
    pub(super) taking: Taking,
    pub(super) lead: Option<Lead>,
    pub(super) limit: Limit,
}

/// A lease that was granted, and that nobody keeps yet.
pub(super) struct Granted {
    pub(super) claim: Claim,
    pub(super) round: Round,
    /// From when on it counts.
    pub(super) asked_at: Moment,
}

/// One attempt by itself, of who waits or is next.
///
/// # Cancel safety
///
/// When the future is dropped, whatever may have been granted is given back.
pub(super) fn attempt_aside(
    claim: Claim,
    bid: Bid,
) -> BoxFuture<'static, Result<Granted, Refused>> {
    Box::pin(attempt(claim, bid))
}

/// One attempt. Its owner is never used again, whatever comes of it (safety rule 1).
///
/// Where only a token stood in the way, the same owner proposes a larger one: a server that had
/// accepted the smaller one grants again, with the TTL and the deadline of the later question.
/// Where servers were late, they are asked once more, over the same connections: the answer says
/// what became of the first question too. Anything else that is not known is given back.
pub(super) async fn attempt(mut claim: Claim, bid: Bid) -> Result<Granted, Refused> {
    let Bid { is_fenced, is_fair, taking, lead, limit } = bid;
    let hold = claim.hold();
    let quorum = hold.quorum();
    hold.core.meter().note_attempt();
    let is_plain = !is_fenced
        && !is_fair
        && taking != Taking::Look
        && hold.predecessor().is_none()
        && hold.seize().is_none()
        && hold.names.len() == 1;
    let mut ballot = (!is_plain).then(|| Ballot::new(clock::wall_micros()));
    let drawn = match ballot {
        Some(ballot) if is_fenced && lead.is_none() && may_draw(hold, taking) => {
            direct::take(hold, ballot, taking, limit).await
        }
        _ => None,
    };
    let is_drawn = drawn.is_some();
    let mut round = match drawn {
        Some(round) => round,
        None => ask(&claim, ballot, taking, lead, limit).await,
    };
    let (mut proposals, mut has_insisted) = (1, false);
    let command_max = hold.core.command_max();
    while proposals < PROPOSALS_MAX {
        let outbid = ballot.and_then(|ballot| round.outbid(ballot, quorum));
        let next = match (ballot, outbid) {
            (_, Some(next)) if !limit.is_over() => next,
            (before, _) if !has_insisted && round.is_open(quorum) && limit.leaves(command_max) => {
                has_insisted = true;
                before.map_or_else(|| Ballot::new(clock::wall_micros()), Ballot::again)
            }
            _ => break,
        };
        ballot = Some(next);
        let free_at = round.free_at;
        round = Round { free_at, ..ask(&claim, ballot, taking, None, limit).await };
        proposals += 1;
    }
    let is_over = proposals == 1 && hold.predecessor().is_none();
    if is_over && round.proves_nothing_granted() && !hold.is_let_in() {
        claim.settle();
    }
    let hold = claim.hold();
    match granted(&round, hold, ballot) {
        Ok(Grant { asked_at, answered_at, deadline, token }) => {
            #[cfg(test)]
            let token = hold.token().filter(|_| Mutant::HandOverKeepsTheToken.is_on()).or(token);
            #[cfg(test)]
            if Mutant::MaximumWrittenBackUnowned.is_on() {
                claim.write_back(token.unwrap_or(0));
            }
            let is_near = |token| ballot.is_some_and(|ballot| ballot.believes(token));
            if !is_drawn && token.is_some_and(is_near) {
                note_seeded(hold);
            }
            hold.begin(deadline, token.filter(|_| is_fenced), answered_at);
            Ok(Granted { claim, round, asked_at })
        }
        Err(setback) => {
            if round.is_unknown() {
                hold.core.meter().note_unknown();
            }
            if matches!(setback, Setback::Held(_)) && hold.seize().is_none() {
                hold.core.meter().note_contended(hold.name());
            }
            Err(Refused { setback, round, hold: hold.clone() })
        }
    }
}

/// Puts one question to the servers: for the lock as it is, or for one that is another's.
async fn ask(
    claim: &Claim,
    ballot: Option<Ballot>,
    taking: Taking,
    lead: Option<Lead>,
    limit: Limit,
) -> Round {
    match (claim.hold().seize(), ballot) {
        (Some(seize), Some(ballot)) => Box::pin(claim.seize(seize, ballot, limit)).await,
        _ => claim.acquire(ballot, taking, lead, limit).await,
    }
}

struct Grant {
    asked_at: Moment,
    answered_at: Moment,
    deadline: Moment,
    token: Option<u64>,
}

/// Whether a round was won and is worth having: enough validity left (safety rule 2), and one
/// token that all accepted.
fn granted(round: &Round, hold: &Hold, ballot: Option<Ballot>) -> Result<Grant, Setback> {
    let (quorum, term) = (hold.quorum(), hold.term);
    let (Verdict::Won, Some(asked_at), Some(answered_at)) =
        (round.verdict, round.asked_at(), round.answered_at())
    else {
        return Err(round.setback(quorum));
    };
    #[cfg(test)]
    let asked_at = if Mutant::ValidityFromTheReply.is_on() { answered_at } else { asked_at };
    let deadline = term.deadline(asked_at);
    if !term.is_worthwhile(deadline, answered_at) {
        return Err(Setback::TooLate);
    }
    let accepts = |token: &u64| ballot.is_some_and(|it| it.accepts(*token, hold.is_alone()));
    let token = match ballot.map(|ballot| round.token(ballot.proposal()).filter(accepts)) {
        Some(None) => return Err(Setback::Failing),
        token => token.flatten(),
    };
    Ok(Grant { asked_at, answered_at, deadline, token })
}
