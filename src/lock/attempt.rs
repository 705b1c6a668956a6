//! One attempt at a lock, by one owner.

use std::time::Duration;

use super::acquire_mode::Taking;
use super::claim::Claim;
use super::core::Lead;
use super::direct::{self, may_draw, note_seeded};
use super::held::Held;
use super::limit::Limit;
use super::names::title;
use super::order::{Seize, Wish};
use super::round::Round;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::policy::{Attempt, AttemptAction, Ballot, Conditions, Grant, Moment, Setback};

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
    /// Whether no waiter may be overtaken, at the price of a script.
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

/// One attempt by itself, of a request that waits or is next.
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

/// One attempt: puts the questions that [`Attempt`] asks for, and does what it decides.
pub(super) async fn attempt(mut claim: Claim, bid: Bid) -> Result<Granted, Refused> {
    let Bid { is_fenced, is_fair, taking, lead, limit } = bid;
    let hold = claim.hold();
    hold.core.meter().note_attempt();
    let is_plain = !is_fenced
        && !is_fair
        && taking != Taking::Look
        && hold.replaces().next().is_none()
        && hold.seize().is_none()
        && hold.names.len() == 1;
    let conditions = Conditions {
        quorum: hold.quorum(),
        term: hold.term,
        is_alone: hold.is_alone(),
        succeeds: hold.predecessor().is_some(),
        ends_at: limit.ends_at(),
        round_max: hold.core.command_max(),
    };
    let ballot = (!is_plain).then(|| Ballot::new(clock::wall_micros()));
    let mut attempt = Attempt::begin(conditions, ballot);
    let draws = is_fenced && lead.is_none() && may_draw(hold, taking);
    let drawn = if draws { direct::take(hold, &attempt, taking, limit).await } else { None };
    let is_drawn = drawn.is_some();
    let mut round = match drawn {
        Some(round) => round,
        None => ask(&claim, ballot, taking, lead, limit).await,
    };
    loop {
        let hold = claim.hold();
        let proposal = attempt.ballot().map_or(0, Ballot::proposal);
        match attempt.ended(&round.tally(hold, proposal), clock::wall_micros) {
            AttemptAction::Ask(ballot) => {
                let free_at = round.free_at;
                round = Round { free_at, ..ask(&claim, Some(ballot), taking, None, limit).await };
            }
            AttemptAction::Hold(grant) => {
                let Grant { asked_at, answered_at, deadline, token } = grant;
                if !is_drawn && token.is_some_and(|token| attempt.believes(token)) {
                    note_seeded(hold);
                }
                hold.begin(deadline, token.filter(|_| is_fenced), answered_at);
                return Ok(Granted { claim, round, asked_at });
            }
            AttemptAction::GiveUp { setback, is_settled } => {
                if is_settled {
                    claim.settle();
                }
                return Err(refused(setback, round, claim.hold()));
            }
        }
    }
}

/// Counts an attempt that came to nothing.
fn refused(setback: Setback, round: Round, hold: &Held) -> Refused {
    let meter = hold.core.meter();
    if round.is_unknown() {
        meter.note_unknown();
    }
    if matches!(setback, Setback::Held(_)) && hold.seize().is_none() {
        meter.note_contended(hold.name());
    }
    Refused { setback, round, hold: hold.clone() }
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
