//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::core::{Core, Lead};
use super::held::Held;
use super::hold::{Hold, title};
use super::lease::Lease;
use super::limit::Limit;
use super::lines::Failing;
use super::manner::{Manner, Taking, Waiting};
use super::order::Wish;
use super::post::Lanes;
use super::round::Round;
use super::spans::Asking;
use super::together::together;
use super::wait::wait;
use crate::clock;
use crate::error::{Error, ErrorKind, Kind, Report};
#[cfg(test)]
use crate::policy::mutants::Mutant;
use crate::policy::{Ballot, Moment, Patience, Setback, Verdict};

/// How often one attempt proposes a token: contenders outbid one another only while they overlap.
const PROPOSALS_MAX: usize = 4;

/// Why one attempt came to nothing.
pub(super) struct Refused {
    pub(super) setback: Setback,
    pub(super) round: Round,
    pub(super) hold: Held,
}

/// Takes the locks, or says why they cannot be had.
///
/// # Cancel safety
///
/// When the future is dropped, whatever may have been granted is given back.
pub(crate) async fn acquire(core: &Arc<Core>, wish: &Wish) -> Result<Lease, Error> {
    let asking = Asking::begin(core, wish);
    let asked_at = clock::now();
    let taken = take(core, wish, asked_at).await;
    // A lease that was begun before the locker was shut down is known to whoever did that; any
    // other is given back here.
    let outcome = if core.is_shut_down() { Err(shut_down(wish)) } else { taken };
    let (meter, name) = (core.meter(), wish.names[0].lock());
    match &outcome {
        Ok(lease) => {
            let waited = lease.granted_at().since(asked_at);
            meter.note_granted(name, waited);
            asking.granted(lease.hold(), waited);
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::Contended if error.is_timeout() => {
                    meter.note_timed_out(name, clock::now().since(asked_at));
                }
                ErrorKind::Contended => meter.note_refused(),
                _ => meter.note_failed(name),
            }
            asking.refused(error);
        }
    }
    outcome
}

/// Tries once, unless others wait already in this process; then waits, if it is to.
async fn take(core: &Arc<Core>, wish: &Wish, asked_at: Moment) -> Result<Lease, Error> {
    let (grace, attempt_max) = (wish.order.term.ttl(), core.command_max());
    let patience = Patience::new(wish.wait, wish.retry, grace, attempt_max, asked_at);
    let limit = patience.ends_at().map_or(Limit::None, Limit::At);
    let waits = patience.waits();
    let mut refused = None;
    // Who comes while others wait in this process goes behind them without asking.
    if !(waits && core.lines().has(&wish.names[0])) {
        if core.is_shut_down() {
            return Err(shut_down(wish));
        }
        let manner = if waits || wish.is_fair { Manner::TURN } else { Manner::TAKE };
        let (is_fenced, is_fair) = (wish.order.is_fenced, wish.is_fair);
        let bid = Bid { is_fenced, is_fair, manner, lead: None, limit };
        let claim = Claim::new(core, wish.names.clone(), &wish.order, Lanes::Shared);
        match attempt(claim, bid).await {
            Ok(lease) => return Ok(lease),
            Err(failed) if !waits => return Err(failed.error(wish, None)),
            Err(failed) => refused = Some(failed),
        }
    }
    // On the heap, so that who need not wait does not carry the room for it.
    match wish.names.len() {
        1 => Box::pin(wait(core, wish, patience, refused)).await,
        _ => Box::pin(together(core, wish, patience, refused)).await,
    }
}

impl Refused {
    /// The error that it is, where there is no other try: because the wait is over, which was this
    /// long, or for another reason.
    pub(super) fn error(&self, wish: &Wish, waited: Option<Duration>) -> Error {
        let kind = match self.setback {
            Setback::Held(_) | Setback::Watched(_) => Kind::Contended { waited },
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

/// Too few servers served another who waited for the same.
pub(super) fn failed(wish: &Wish, Failing { report, is_final }: Failing) -> Error {
    let kind = Kind::NoQuorum { waited: None, is_final };
    Error::new(kind, title(&wish.names), report)
}

/// How to ask for a lock, and until when.
pub(super) struct Bid {
    pub(super) is_fenced: bool,
    /// Whether nobody who waits may be overtaken, at the price of a script.
    pub(super) is_fair: bool,
    pub(super) manner: Manner,
    pub(super) lead: Option<Lead>,
    pub(super) limit: Limit,
}

/// One attempt. Its owner is never used again, whatever comes of it (safety rule 1).
///
/// Where only a token stood in the way, the same owner proposes a larger one: a server that had
/// accepted the smaller one grants again, with the TTL and the deadline of the later question.
/// Where servers were late, they are asked once more, over the same connections: the answer says
/// what became of the first question too. Anything else that is not known is given back.
pub(super) async fn attempt(mut claim: Claim, bid: Bid) -> Result<Lease, Refused> {
    let Bid { is_fenced, is_fair, manner, lead, limit } = bid;
    let hold = claim.hold().clone();
    let quorum = hold.quorum();
    hold.core.meter().note_attempt();
    let is_plain = !is_fenced
        && !is_fair
        && manner.waiting == Waiting::No
        && manner.taking != Taking::Look
        && hold.predecessor().is_none()
        && hold.names.len() == 1;
    let mut ballot = (!is_plain).then(|| Ballot::new(clock::wall_micros()));
    let mut round = claim.acquire(ballot, manner, lead, limit).await;
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
        round = Round { free_at, ..claim.acquire(ballot, manner, None, limit).await };
        proposals += 1;
    }
    let is_over = proposals == 1 && hold.predecessor().is_none();
    if is_over && round.proves_nothing_granted() && !hold.is_let_in() {
        claim.settle();
    }
    match granted(&round, &hold, ballot) {
        Ok(Grant { asked_at, deadline, token }) => {
            #[cfg(test)]
            let token = hold.token().filter(|_| Mutant::HandOverKeepsTheToken.is_on()).or(token);
            #[cfg(test)]
            if Mutant::MaximumWrittenBackUnowned.is_on() {
                claim.write_back(token.unwrap_or(0));
            }
            hold.begin(deadline, token.filter(|_| is_fenced), clock::now());
            Ok(Lease::begin(claim, round, asked_at))
        }
        Err(setback) => {
            if round.is_unknown() {
                hold.core.meter().note_unknown();
            }
            if matches!(setback, Setback::Held(_)) {
                hold.core.meter().note_contended(hold.name());
            }
            Err(Refused { setback, round, hold })
        }
    }
}

struct Grant {
    asked_at: Moment,
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
    Ok(Grant { asked_at, deadline, token })
}
