//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::future::Future;
use std::sync::Arc;

use super::acquire_mode::Taking;
use super::attempt::{Bid, attempt, shut_down};
use super::claim::Claim;
use super::engine::Engine;
use super::lease::Lease;
use super::likely::Fact;
use super::limit::Limit;
use super::names::Names;
use super::order::{Seize, Wish};
use super::own::{mark_own, refuse_own};
use super::participant::Lanes;
use super::spans::Asking;
use super::together::together;
use super::wait::wait;
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::policy::{Moment, RetryState};

/// Takes the locks, or says why that failed.
///
/// # Cancel safety
///
/// When the future is dropped, whatever may have been granted is given back.
pub(crate) fn acquire(
    engine: &Arc<Engine>,
    wish: &Wish,
) -> impl Future<Output = Result<Lease, Error>> {
    acquire_since(engine, wish, clock::now())
}

/// The same, for a caller that has waited since `asked_at`.
pub(super) async fn acquire_since(
    engine: &Arc<Engine>,
    wish: &Wish,
    asked_at: Moment,
) -> Result<Lease, Error> {
    let asking = Asking::begin(engine.core(), wish);
    let taken = match refuse_own(engine, wish) {
        Ok(()) => take(engine, wish, asked_at).await,
        Err(error) => Err(error),
    };
    // A lease that was begun before the locker was shut down is known to the shutdown; any
    // other is given back here.
    let mut outcome = if engine.is_shut_down() { Err(shut_down(wish)) } else { taken };
    let (meter, name) = (engine.meter(), wish.names[0].lock());
    match &mut outcome {
        Ok(lease) => {
            let waited = lease.granted_at().since(asked_at);
            meter.note_granted(name, waited);
            let hold = lease.hold();
            if let Some(seize) = &wish.order.seize {
                tell_of_seizure(engine, seize, lease, &asking);
            }
            asking.granted(&hold.span, &hold.names, hold.token(), waited);
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::Contended if error.is_timeout() => {
                    mark_own(engine, error);
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

/// A lock that was another's is this request's now: says so, and whose it was.
fn tell_of_seizure(engine: &Engine, seize: &Seize, lease: &Lease, asking: &Asking<'_>) {
    let (meter, names, report) = (engine.meter(), &lease.hold().names, lease.report());
    match (seize, report.taken_from().next()) {
        (Seize::From(_), _) => meter.note_adopted(names[0].lock()),
        (Seize::FromAnybody, Some(from)) => {
            meter.note_stolen(names[0].lock(), &from.owner, from.label.as_deref());
            asking.stolen(names, from);
        }
        (Seize::FromAnybody, None) => {}
    }
}

/// Tries once, unless others wait already in this process; then waits, if it is to.
async fn take(engine: &Arc<Engine>, wish: &Wish, asked_at: Moment) -> Result<Lease, Error> {
    let (grace, attempt_max) = (wish.order.term.ttl(), engine.command_max());
    let patience = RetryState::new(wish.wait, wish.retry, grace, attempt_max, asked_at);
    let limit = patience.ends_at().map_or(Limit::None, Limit::At);
    let waits = patience.waits();
    let mut refused = None;
    // A caller that comes while others wait in this process goes behind them without asking. Where other processes
    // were in the way the last time, the first question is the queue's: it takes the lock, or a place.
    let joins = |name| engine.lines().has(name) || finds_others(engine, wish, name);
    if !(waits && wish.line().is_some() && joins(&wish.names[0])) {
        if engine.is_shut_down() {
            return Err(shut_down(wish));
        }
        let taking = if waits || wish.is_fair { Taking::Turn } else { Taking::Take };
        let (is_fenced, is_fair) = (wish.order.is_fenced, wish.is_fair);
        let bid = Bid { is_fenced, is_fair, taking, lead: None, limit };
        let claim = Claim::new(engine.core(), wish.names.clone(), &wish.order, Lanes::Shared);
        match attempt(claim, bid).await {
            Ok(granted) => return Ok(Lease::begin(engine, granted)),
            Err(failed) if !waits => return Err(failed.error(wish, None)),
            Err(failed) => refused = Some(failed),
        }
    }
    // On the heap, so that a caller that need not wait does not carry the room for it.
    match wish.names.len() {
        1 => Box::pin(wait(engine, wish, patience, refused)).await,
        _ => Box::pin(together(engine, wish, patience, refused)).await,
    }
}

/// Whether other processes were in the way of the last request that waited, which is asked once.
fn finds_others(engine: &Engine, wish: &Wish, name: &Names) -> bool {
    let (likely, lock) = (engine.core().likely(), name.lock());
    let has_queue = engine.is_single() && wish.names.len() == 1 && wish.may_queue();
    let is_sought = has_queue && likely.has(lock, Fact::Sought);
    if is_sought {
        likely.remove(lock, Fact::Sought);
    }
    is_sought
}
