//! Several locks at once, for a request that others keep from them by taking them one by one.
//!
//! All are taken or none, so a request for several waits until all are free at the same moment, which
//! never comes where each is always somebody's. So after a while its turn comes: it takes them one
//! after the other, in the order that all callers have in common, each in the line of that lock, and
//! keeps what it has while it waits for the next. A turn is bounded, and so is what it costs: if it
//! was too short, all is given back, and it waits for as long again without keeping anything.
//!
//! What it keeps is a part: an ordinary lease of some of the locks, of an owner of its own. The next
//! owner takes all of the part and one lock more, in one script, to which the part's locks are as good
//! as free. The part gives itself back after that, whichever owner has its locks by then: nobody relies on it.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::Acquiring;
use super::attempt::Refused;
use super::engine::Engine;
use super::lease::Lease;
use super::order::{Order, Wish};
use super::outlook::Outlook;
use super::wait::Waiter;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::Error;
use crate::policy::{Bounds, Moment, RetryState};
use crate::race::timeout;

/// How long the first turn lasts, and what comes before it: longer than a process may keep a lock to
/// itself by handing it on.
const FIRST_TURN: Duration = Duration::from_secs(2);
/// Each is twice as long as the one before, up to this.
const LONGEST_TURN: Duration = Duration::from_secs(32);

/// Begins to take all locks of this wish.
pub(crate) fn begin_all(engine: &Arc<Engine>, wish: &Wish) -> Acquiring {
    Acquiring::of_several(engine, wish, together)
}

/// Waits for all of several locks, after a first attempt was `refused`, if there was one.
///
/// # Cancel safety
///
/// When the future is dropped, what was granted is given back.
fn together<'a>(
    engine: &'a Arc<Engine>,
    wish: &'a Wish,
    patience: RetryState,
    mut refused: Option<Refused>,
) -> BoxFuture<'a, Result<Lease, Error>> {
    Box::pin(async move {
        let mut outlook = Outlook::new(patience);
        // Where each is with another server, what has one of them cannot be taken over by all.
        if engine.is_spread(&wish.names) {
            return Waiter::of_all(engine, wish, &mut outlook).run(refused).await;
        }
        let mut turn = FIRST_TURN;
        loop {
            let at_once = Waiter::of_all(engine, wish, &mut outlook).run(refused.take());
            if let Ok(outcome) = timeout(turn, at_once).await {
                return outcome;
            }
            if let Some(outcome) = one_by_one(engine, wish, &mut outlook, turn).await {
                return outcome;
            }
            turn = LONGEST_TURN.min(2 * turn);
        }
    })
}

/// One turn, from the first lock on; none where it was too short.
async fn one_by_one(
    engine: &Arc<Engine>,
    wish: &Wish,
    outlook: &mut Outlook,
    turn: Duration,
) -> Option<Result<Lease, Error>> {
    let mut part = Part(None);
    let mut ends_at = None;
    for count in 1..wish.names.len() {
        let wanted = Wish {
            names: wish.names[..count].iter().cloned().collect(),
            order: Order { is_renewed: true, bounds: Bounds::default(), ..wish.order.clone() },
            ..*wish
        };
        match next(engine, &wanted, outlook, &part, ends_at).await? {
            Ok(lease) => part.replace(lease),
            Err(error) => return Some(Err(error)),
        }
        ends_at.get_or_insert_with(|| clock::now().after(turn));
    }
    next(engine, wish, outlook, &part, ends_at).await
}

/// Takes all locks of a wish, of which `part` has all but the last.
async fn next(
    engine: &Arc<Engine>,
    wish: &Wish,
    outlook: &mut Outlook,
    part: &Part,
    ends_at: Option<Moment>,
) -> Option<Result<Lease, Error>> {
    let waiter = Waiter::of_last(engine, wish, outlook, part.owner());
    let taken = waiter.run(None);
    match ends_at {
        Some(ends_at) => timeout(ends_at.since(clock::now()), taken).await.ok(),
        None => Some(taken.await),
    }
}

/// Some of the locks, kept until all are had or the turn is over.
struct Part(Option<Lease>);

impl Part {
    fn owner(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|lease| lease.hold().owner.value())
    }

    fn replace(&mut self, lease: Lease) {
        if let Some(before) = self.0.replace(lease) {
            before.withdraw();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            lease.withdraw();
        }
    }
}
