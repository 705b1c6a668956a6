//! One of several locks: the first that is free.
//!
//! Each lock has a request of its own, and each grant is a lease of its own. Dropping a lease releases its lock, and
//! dropping the whole future drops all leases.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use super::way::{Way, begin};
use crate::api::{Lease, Locker as Front};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::names::Names;
use crate::policy::{Moment, Wait, left_of};
use crate::race::next;
use crate::request::order::Wish;

/// For how long the locks are tried one by one: the command timeout divided by this.
const ALONE_SHARE: u32 = 8;

/// Begins to acquire one of the locks of this wish.
pub(crate) fn begin_any(front: &Front, wish: &Wish) -> Way {
    Way::aside(acquire_any(front.clone(), wish.clone()))
}

/// Acquires one of the locks, or says why none is available. Tries one by one first, which takes no second lock if one
/// is free and servers answer soon; then waits for all of them.
///
/// # Cancel safety
///
/// When the future is dropped, whatever may have been granted is released.
async fn acquire_any(front: Front, wish: Wish) -> Result<Lease, Error> {
    let asked_at = clock::now();
    let tries = try_each(&front, &wish);
    let tried = match wish.wait {
        Wait::AtMost(limit) if !limit.is_zero() => front.timeout(limit, pin!(tries)).await.ok(),
        _ => Some(tries.await),
    };
    let failures = match tried {
        Some(Ok(lease)) => return Ok(lease),
        Some(Err(failures)) => failures,
        None => Vec::new(),
    };
    let wait = match wish.wait {
        Wait::Never | Wait::AtMost(Duration::ZERO) => return Err(worst(failures)),
        Wait::Forever => Wait::Forever,
        // At least a millisecond, so that the error can say why.
        Wait::AtMost(limit) => {
            let waited = clock::now().since(asked_at);
            Wait::AtMost(limit.max(waited + Duration::from_millis(1)))
        }
    };
    let wishes = wish.all().iter().map(|names| Wish { wait, ..one(&wish, names) });
    let running = wishes.map(|wish| run(&front, wish, asked_at));
    first(running.collect(), Vec::new()).await.map_err(worst)
}

/// Tries each lock once: one by one, and after a while all that are left at once, so that servers that do not answer
/// cost one command timeout, not one for each.
async fn try_each(front: &Front, wish: &Wish) -> Result<Lease, Vec<Error>> {
    // A request that would wait leaves a lock to its waiters; only scripts can do that.
    let is_fair = wish.is_fair || wish.wait != Wait::Never && !front.is_scriptless();
    let mut tries = wish.all().iter().map(|names| {
        let once = Wish { wait: Wait::Never, is_fair, ..one(wish, names) };
        run(front, once, clock::now())
    });
    let until = clock::now().after(front.command_timeout() / ALONE_SHARE);
    let (mut failures, mut running) = (Vec::new(), Vec::new());
    while let Some(one) = tries.next() {
        running.push(one);
        let tried = front.timeout(until.since(clock::now()), next(&mut running)).await;
        match tried {
            Ok(Some(Ok(lease))) => return Ok(lease),
            Ok(answer) => failures.extend(answer.and_then(Result::err)),
            Err(_) => running.extend(tries.by_ref()),
        }
    }
    first(running, failures).await
}

/// The same wish for one of the locks.
fn one(wish: &Wish, names: &Names) -> Wish {
    let Wish { wait, retry, is_fair, refuses_own, .. } = *wish;
    let (names, order) = (names.clone(), wish.order.clone());
    Wish { names, several: Vec::new(), order, wait, retry, is_fair, refuses_own }
}

/// Requests one of the locks, for a caller that has waited since `asked_at`.
fn run(front: &Front, mut wish: Wish, asked_at: Moment) -> BoxFuture<'_, Result<Lease, Error>> {
    let mut begun = None;
    Box::pin(poll_fn(move |context| {
        let way = match &mut begun {
            Some(way) => way,
            None => {
                if let Wait::AtMost(limit) = &mut wish.wait {
                    *limit = left_of(*limit, clock::now().since(asked_at));
                }
                let is_elsewhere = front.check_runtime()?;
                begun.insert(begin(front, &wish, is_elsewhere, context)?.since(asked_at))
            }
        };
        way.poll(context)
    }))
}

/// The first grant; drops the other requests. Without a grant, all failures, after those given.
async fn first(
    mut running: Vec<BoxFuture<'_, Result<Lease, Error>>>,
    mut failures: Vec<Error>,
) -> Result<Lease, Vec<Error>> {
    while let Some(answer) = next(&mut running).await {
        match answer {
            Ok(lease) => return Ok(lease),
            Err(error) => failures.push(error),
        }
    }
    Err(failures)
}

/// The error to return if all failed: the first outage rather than contention.
fn worst(failures: Vec<Error>) -> Error {
    let is_outage = |error: &Error| error.kind() != ErrorKind::Contended;
    let worst = failures
        .into_iter()
        .reduce(|first, other| if is_outage(&other) && !is_outage(&first) { other } else { first });
    worst.unwrap_or_else(|| Error::misuse("lock_any needs at least one name"))
}
