//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::sync::Arc;

use tokio::time::sleep;

use super::claim::Claim;
use super::core::Core;
use super::lease::Lease;
use super::names::Names;
use super::owner::Owner;
use super::round::Round;
use crate::clock;
use crate::error::{Error, Kind};
use crate::policy::{Ballot, Next, Patience, Setback, Term, Verdict, Wait};

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
    loop {
        let refused = match attempt(core, wish).await {
            Ok(lease) => return Ok(lease),
            Err(refused) => refused,
        };
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
        Setback::Failing | Setback::Hopeless => Kind::NoQuorum,
    }
}

/// One attempt. Its owner is never used again, whatever comes of it (safety rule 1).
async fn attempt(core: &Arc<Core>, wish: &Wish) -> Result<Lease, Refused> {
    let owner = Owner::fresh(wish.label.as_deref());
    let mut claim = Claim::new(Arc::clone(core), wish.names.clone(), owner, wish.term);
    let ballot = wish.fenced.then(|| Ballot::new(clock::wall_micros()));
    let round = match ballot {
        Some(ballot) => claim.acquire_fenced(ballot).await,
        None => claim.acquire_unfenced().await,
    };
    if round.proves_nothing_granted() {
        claim.settle();
    }
    match granted(&round, wish.term, ballot) {
        Ok(Grant { deadline, token }) => Ok(Lease::new(claim, deadline, token)),
        Err(setback) => Err(Refused { setback, round }),
    }
}

struct Grant {
    deadline: crate::policy::Moment,
    token: Option<u64>,
}

/// Whether a round that was won is worth having: enough validity left (safety rule 2), and a
/// token that can be the proposal's.
fn granted(round: &Round, term: Term, ballot: Option<Ballot>) -> Result<Grant, Setback> {
    let (Verdict::Won, Some(asked_at), Some(answered_at)) =
        (round.verdict, round.asked_at(), round.answered_at())
    else {
        return Err(round.setback());
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
