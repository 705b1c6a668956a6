//! Several locks at once, for a request that others keep from them by taking them one by one.
//!
//! All are taken or none, so a request for several waits until all are free at the same moment, which
//! never comes where each is always somebody's. So it has a turn: it waits in the queues of all its locks at once,
//! before all requests for one, and keeps what it gets until it has all. That is what the turn costs: a lock that
//! it keeps is nobody's. So there is one turn at a time, of all requests for several whose names have one key
//! prefix: that of the holder of a lock of that purpose, which it gives back as soon as it has its locks. And a turn is
//! bounded: if it was too short, it gives back all that it kept, and waits for as long again without keeping anything.
//!
//! What it keeps are parts: ordinary leases, each of one lock, and of an owner of its own. When it has all, another
//! owner takes all of them in one script, to which the parts' locks are as good as free. The parts give themselves back
//! after that, whichever owner has their locks by then: nobody relies on them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::Acquiring;
use super::attempt::Refused;
use super::engine::Engine;
use super::lease::Lease;
use super::names::Names;
use super::one_or_many::OneOrMany;
use super::order::{Order, Wish};
use super::outlook::Outlook;
use super::wait::Waiter;
use crate::box_future::BoxFuture;
use crate::error::Error;
use crate::policy::{Bounds, RetryState};
use crate::race::{First, all, race, timeout};

/// How long the first turn lasts.
const FIRST_TURN: Duration = Duration::from_millis(250);
/// Each is twice as long as the one before, up to this.
const LONGEST_TURN: Duration = Duration::from_secs(8);

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
        let mut length = FIRST_TURN;
        loop {
            let at_once = Waiter::of_all(engine, wish, &mut outlook).run(refused.take());
            let turn = match race(at_once, pin!(turn(engine, wish, patience))).await {
                First::One(outcome) => return outcome,
                First::Other(turn) => turn,
            };
            let collected = collect(engine, wish, &mut outlook);
            if let Ok(outcome) = timeout(length, pin!(collected)).await {
                return outcome;
            }
            drop(turn);
            let at_once = Waiter::of_all(engine, wish, &mut outlook).run(None);
            if let Ok(outcome) = timeout(length, at_once).await {
                return outcome;
            }
            length = LONGEST_TURN.min(2 * length);
        }
    })
}

/// A wish for one lock of this one's kind, to be kept until it is given back.
fn one(wish: &Wish, names: &Names, priority: Option<u8>) -> Wish {
    let bounds = Bounds::default();
    let order = Order { is_renewed: true, bounds, priority, is_part: true, ..wish.order.clone() };
    Wish { names: OneOrMany::One([names.clone()]), order, ..*wish }
}

/// Waits for the turn. A request that cannot have that lock goes without: the right to it may be missing, or its node of
/// a Cluster down, while all that is wanted is at another. What fails at that one ends the request by itself.
async fn turn(engine: &Arc<Engine>, wish: &Wish, patience: RetryState) -> Option<Lease> {
    let mut wanted = one(wish, engine.turns()?, None);
    wanted.order.is_fenced = false;
    let mut outlook = Outlook::new(patience);
    Waiter::of_one(engine, &wanted, &mut outlook).run(None).await.ok()
}

/// Takes all locks of a wish from the heads of their queues.
async fn collect(engine: &Arc<Engine>, wish: &Wish, outlook: &mut Outlook) -> Result<Lease, Error> {
    let patience = outlook.patience;
    let taking = all(wish.names.iter().map(|names| async move {
        let (wanted, mut outlook) = (one(wish, names, Some(u8::MAX)), Outlook::new(patience));
        let taken = Waiter::of_all(engine, &wanted, &mut outlook).run(None).await;
        (taken.map(|lease| Part(Some(lease))), outlook.known)
    }));
    let mut parts = Vec::new();
    for (taken, known) in taking.await {
        match taken {
            Ok(part) => parts.push(part),
            Err(error) if error.is_timeout() => {
                outlook.known = known.or(outlook.known.take());
                return Err(outlook.out_of_time(wish));
            }
            Err(error) => return Err(error),
        }
    }
    let owners: Vec<&[u8]> = parts.iter().filter_map(Part::owner).collect();
    Waiter::of_parts(engine, wish, outlook, &owners).run(None).await
}

/// One of the locks, kept until all are had or the turn is over.
struct Part(Option<Lease>);

impl Part {
    fn owner(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|lease| lease.hold().owner.value())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            lease.withdraw();
        }
    }
}
