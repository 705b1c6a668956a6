//! Several locks at once, although other requests keep taking single ones.
//!
//! All locks are taken or none, so a request for several waits until all are free at the same moment, which never comes if
//! one of them is always held. So it has turns, as `Locker::lock_all` says. A kept lock is of no use to any client: so one
//! request at a time has a turn, by a lock that it releases as soon as it has its own, and a turn is bounded.
//!
//! The kept locks are parts: leases of one lock each, with owners of their own. Once the request has all parts, it acquires
//! all locks in one script, for which the parts' locks count as free. Then the parts are released, even if they have lost
//! their locks: no caller relies on them.

#[cfg(feature = "cluster")]
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use super::way::{Way, open_span, options};
use crate::api::{Acquire, Part};
use crate::api::{Lease, Locker as Front};
use crate::error::Error;
use crate::extra::groups::{GROUP, PART, TURN, words};
use crate::machine::{LeaseId, Machine, Options};
use crate::names::Names;
use crate::policy::{Bounds, Wait};
use crate::race::{First, all, race};
use crate::request::order::{Order, Wish};

/// Maximum slots of a Cluster in one lease: the machine counts their votes in the bits of one word.
#[cfg(feature = "cluster")]
const MAX_SLOTS: usize = 64;
/// Length of the first turn.
const FIRST_TURN: Duration = Duration::from_millis(250);
/// Maximum length of a turn; each is twice as long as the one before.
const LONGEST_TURN: Duration = Duration::from_secs(8);
/// Time until the first check whether other requests were in the way. Each later pause is twice as long, up to
/// [`FIRST_TURN`].
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Begins to acquire all locks of this wish.
pub(crate) fn begin_all(front: &Front, wish: &Wish) -> Way {
    Way::aside(together(front.clone(), wish.clone()))
}

/// # Cancel safety
///
/// When the future is dropped, what was granted is released.
async fn together(front: Front, wish: Wish) -> Result<Lease, Error> {
    #[cfg(feature = "cluster")]
    check_slots(&front, wish.all())?;
    let span = open_span(&front, &wish)?;
    let asked = Options {
        kind: &GROUP,
        words: words(wish.all(), &[]),
        ..options(&front, &wish, &wish.names, wish.wait)
    };
    let acquire = Acquire::begun(&front, asked).await.of_several(wish.all()).seen_in(span);
    let id = acquire.id();
    match wish.wait {
        Wait::Never | Wait::AtMost(Duration::ZERO) => acquire.await,
        _ => match race(pin!(acquire), pin!(turns(&front, &wish, id))).await {
            First::One(outcome) => outcome,
            First::Other(never) => match never {},
        },
    }
}

/// # Errors
///
/// The locks are in more slots of a Cluster than one lease can have.
#[cfg(feature = "cluster")]
fn check_slots(front: &Front, names: &[Names]) -> Result<(), Error> {
    let slots: BTreeSet<u16> =
        names.iter().map(|names| front.driver.slot_of(names.lock())).collect();
    if slots.len() <= MAX_SLOTS {
        return Ok(());
    }
    Err(Error::misuse(format_args!(
        "lock_all was given locks in {} slots of a Cluster and takes at most {MAX_SLOTS}: give their names a common hash tag, as in {{orders}}:1",
        slots.len()
    )))
}

/// Takes one turn after the other, until the request has all its locks.
async fn turns(front: &Front, wish: &Wish, id: LeaseId) -> Infallible {
    let mut length = FIRST_TURN;
    loop {
        let mut pause = FIRST_LOOK;
        while !front.driver.look(|machine: &mut Machine| machine.rests(id)) {
            if front.driver.is_deserted() {
                // Without the runtime the request has ended.
                std::future::pending::<()>().await;
            }
            front.sleep(pause).await;
            pause = FIRST_TURN.min(2 * pause);
        }
        // Goes on without a turn's lock if that cannot be acquired: the right to it may be missing.
        let turn = turn(front, wish).await;
        let tell = |owners: &[Box<[u8]>]| {
            let words = words(wish.all(), owners);
            front.driver.with(|machine, now| machine.tell_kind(id, words, now));
        };
        let _ = front.timeout(length, pin!(collect(front, wish, tell))).await;
        drop(turn);
        tell(&[]);
        front.sleep(length).await;
        length = LONGEST_TURN.min(2 * length);
    }
}

/// Waits for the turn; none if its lock cannot be acquired.
async fn turn(front: &Front, wish: &Wish) -> Option<Part> {
    let names = front.turns.as_ref()?;
    let order = Order { is_fenced: false, ..part(wish, None) };
    let wanted = Wish { order, ..wish.clone() };
    Part::take(front, Options { kind: &TURN, ..options(front, &wanted, names, Wait::Forever) })
        .await
}

/// The order for a lease of one lock, to be kept until it is released.
fn part(wish: &Wish, priority: Option<u8>) -> Order {
    Order { is_renewed: true, bounds: Bounds::default(), priority, ..wish.order.clone() }
}

/// Acquires all locks of a wish from the heads of their queues, and keeps them while the request takes them over.
async fn collect(front: &Front, wish: &Wish, tell: impl Fn(&[Box<[u8]>])) {
    let order = Order { is_fenced: true, ..part(wish, Some(u8::MAX)) };
    let wanted = Wish { order, ..wish.clone() };
    let taking = |names: &Names| {
        let options = options(front, &wanted, names, Wait::Forever);
        Part::take(front, Options { kind: &PART, ..options })
    };
    let parts = all(wish.all().iter().map(taking)).await;
    let owners: Vec<Box<[u8]>> = parts.iter().flatten().filter_map(Part::owner).collect();
    if owners.len() == wish.all().len() {
        tell(&owners);
    }
    std::future::pending::<()>().await;
}
