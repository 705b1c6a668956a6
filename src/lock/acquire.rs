//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::sync::Arc;

use tokio::time::sleep;

use super::claim::Claim;
use super::core::{Core, Lead};
use super::lease::Lease;
use super::names::Names;
use super::owner::Owner;
use super::round::Round;
use crate::clock;
use crate::error::{Error, Kind};
use crate::policy::{Ballot, Moment, Next, Patience, Quorum, Setback, Term, Verdict, Wait};

/// How often one attempt proposes a token: contenders outbid one another only while they overlap.
const PROPOSALS_MAX: usize = 4;

/// What a caller wants.
pub(crate) struct Wish {
    pub(crate) names: Names,
    pub(crate) term: Term,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) wait: Wait,
    pub(crate) fenced: bool,
}

/// Why one attempt came to nothing.
struct Refused {
    setback: Setback,
    round: Round,
}

/// Takes the lock, or says why it cannot be had.
///
/// # Cancel safety
///
/// When the future is dropped, whatever may have been granted is given back.
pub(crate) async fn acquire(core: &Arc<Core>, wish: &Wish) -> Result<Lease, Error> {
    let mut patience = Patience::new(wish.wait, wish.term.ttl(), clock::now());
    let mut lead = None;
    loop {
        let refused = match attempt(core, wish, lead).await {
            Ok(lease) => return Ok(lease),
            Err(refused) => refused,
        };
        if matches!(refused.setback, Setback::Held(_)) {
            lead = core.leader(wish.names.lock(), refused.round.slowest_answer());
        }
        let kind = match patience.after(refused.setback, clock::now(), clock::random_bits()) {
            Next::TryIn(delay) => {
                sleep(delay).await;
                continue;
            }
            Next::GiveUp => kind_of(refused.setback),
            Next::OutOfTime(waited) => Kind::TimedOut { waited },
        };
        return Err(Error::new(kind, wish.names.to_string(), refused.round.report(core)));
    }
}

fn kind_of(setback: Setback) -> Kind {
    match setback {
        Setback::Held(_) => Kind::Contended,
        Setback::TooLate => Kind::TooLate,
        Setback::Failing | Setback::Hopeless | Setback::Quarantined(_) => Kind::NoQuorum,
    }
}

/// One attempt. Its owner is never used again, whatever comes of it (safety rule 1).
///
/// Where only a token stood in the way, the same owner proposes a larger one: a server that had
/// accepted the smaller one grants again, with the TTL and the deadline of the later question.
async fn attempt(core: &Arc<Core>, wish: &Wish, lead: Option<Lead>) -> Result<Lease, Refused> {
    let owner = Owner::fresh(core.fingerprint(), wish.label.as_deref());
    let mut claim = Claim::new(Arc::clone(core), wish.names.clone(), owner, wish.term);
    let mut ballot = wish.fenced.then(|| Ballot::new(clock::wall_micros()));
    let mut round = claim.acquire(ballot, lead).await;
    let mut proposals = 1;
    while proposals < PROPOSALS_MAX {
        let (Some(outbid), Some(counter)) = (ballot, round.outbid_by(core.quorum())) else { break };
        ballot = Some(outbid.above(counter));
        round = claim.acquire(ballot, lead).await;
        proposals += 1;
    }
    if proposals == 1 && round.proves_nothing_granted() {
        claim.settle();
    }
    match granted(&round, core.quorum(), wish.term, ballot) {
        Ok(Grant { deadline, token }) => Ok(Lease::new(claim, deadline, token, round)),
        Err(setback) => Err(Refused { setback, round }),
    }
}

struct Grant {
    deadline: Moment,
    token: Option<u64>,
}

/// Whether a round was won and is worth having: enough validity left (safety rule 2), and one
/// token that all accepted.
fn granted(
    round: &Round,
    quorum: Quorum,
    term: Term,
    ballot: Option<Ballot>,
) -> Result<Grant, Setback> {
    let (Verdict::Won, Some(asked_at), Some(answered_at)) =
        (round.verdict, round.asked_at(), round.answered_at())
    else {
        return Err(round.setback(quorum));
    };
    let deadline = term.deadline(asked_at);
    if !term.is_worthwhile(deadline, answered_at) {
        return Err(Setback::TooLate);
    }
    let token = round.token();
    match (ballot, token) {
        (Some(ballot), Some(token)) if ballot.accepts(token) => {}
        (None, _) => {}
        _ => return Err(Setback::Failing),
    }
    Ok(Grant { deadline, token })
}
