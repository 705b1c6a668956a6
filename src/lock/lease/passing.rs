//! A lease that goes from hand to hand in this process as it stands, without a question to its server: see
//! `policy/relay.rs`.

use super::Lease;
use crate::clock;
use crate::lock::attempt::{Granted, Refused};
use crate::lock::claim::Claim;
use crate::lock::hold::Hold;
use crate::lock::lines::{HandOver, Place};
use crate::lock::order::Order;
use crate::lock::participant::Binding;
use crate::lock::round::Round;
use crate::policy::{Moment, Passed, Setback, Verdict};

impl Lease {
    /// Passes the lease that ends at `until` to the next one in the line, if that one asked for such a lease.
    pub(super) fn pass_on(&mut self, until: Option<Moment>, now: Moment) -> bool {
        let hold = self.claim.hold().clone();
        let ([names], Some(until)) = (&hold.names[..], until) else { return false };
        let lease = Passed { until, token: hold.token() };
        let Some((passed, relay)) = hold.relay().pass(lease, hold.term, now) else { return false };
        if !is_sure(&hold) {
            return false;
        }
        let lines = self.engine.lines();
        let fits = |place: &Place| suits(&hold, &place.order);
        let Some(place) = lines.next(names, fits) else { return false };
        let heir = Claim::heir(&hold, &place.order, relay, lines.clone());
        lines.occupy(names, heir.hold(), &place);
        self.claim.settle();
        hold.note_passed_on(now);
        let lock: HandOver = Box::pin(take_up(heir, passed));
        // Where nobody is there to take it any more, it goes back with what is dropped here.
        drop(place.hand(lock));
        true
    }
}

/// Whether nothing is in doubt about it: a quorum has granted it, and stays with it.
fn is_sure(hold: &Hold) -> bool {
    let is_sure = |it: &Binding| it.is_granted && !it.is_unanswered && !it.is_away;
    let sure = hold.participants.iter().filter(|it| is_sure(&it.binding())).count();
    !hold.has_moved() && hold.quorum().verdict(sure, 0) == Verdict::Won
}

/// Whether a lease like this one is what was asked for.
fn suits(hold: &Hold, order: &Order) -> bool {
    let Order { term, is_fenced, is_renewed, bounds, seize, sharing, priority, .. } = order;
    let is_plain = bounds.are_none() && seize.is_none() && sharing.is_none() && priority.is_none();
    is_plain
        && hold.bounds().are_none()
        && hold.sharing().is_none()
        && (hold.is_renewed && *is_renewed)
        && hold.term == *term
        && hold.token().is_some() == *is_fenced
        && hold.owner.says(order.mark(hold.core.fingerprint()))
}

/// The next holder begins, if the lease is still worth having by then.
///
/// # Cancel safety
///
/// When the future is dropped, the lock is given back.
async fn take_up(heir: Claim, passed: Passed) -> Result<Granted, Refused> {
    let (now, hold) = (clock::now(), heir.hold().clone());
    let Passed { until, token } = passed;
    let round = Round::told(&hold, token, now);
    if !hold.term.is_worthwhile(until, now) {
        return Err(Refused { setback: Setback::TooLate, round, hold });
    }
    hold.begin(until, token, now);
    Ok(Granted { claim: heir, round, asked_at: hold.term.asked_at(until) })
}
