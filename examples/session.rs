//! A session that lives on one host at a time while its agent works. A host that shuts down passes it on, and one that
//! is stuck is replaced at once.
//!
//! `cargo run --features takeover --example session [redis://host:port]`; the URL may also stand in LEASEHOLD_URL. The
//! three hosts are lockers of this one program.
//!
//! - *Ownership.* The lease is renewed for as long as the host works. A host that dies loses it after the TTL.
//! - *Ticket.* A host that shuts down leaves its lock to a ticket, and sends that to the next host: no other host gets
//!   the lock in between.
//! - *Takeover.* A user that has moved to another host does not wait for a stuck one: `steal` ends its lease. That
//!   breaks exclusion on purpose, for a moment.
//! - *Fence.* So the store of the session keeps the largest token that it has seen, from each owner's first read on,
//!   and refuses late writes of former owners.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::{FencingToken, Guard, Locker};

const SESSION: &str = "example:session:42";
/// A host that goes down has this time to reach the next one.
const TICKET_FOR: Duration = Duration::from_secs(60);

/// What the session has come to. In a service this is a row with a column for the token: docs/fencing.md.
#[derive(Default)]
struct Store(Mutex<(Option<FencingToken>, Vec<String>)>);

impl Store {
    /// The owner with this token begins: from here on no smaller one is served.
    fn read(&self, token: FencingToken) -> Result<Vec<String>, String> {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if row.0.is_some_and(|largest| largest > token) {
            return Err(format!("token {token} is not the last one: a later owner has begun"));
        }
        row.0 = Some(token);
        Ok(row.1.clone())
    }

    fn write(&self, token: FencingToken, step: &str) -> Result<(), String> {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if row.0 != Some(token) {
            return Err(format!("token {token} is not the last one: a later owner has begun"));
        }
        row.1.push(step.to_owned());
        Ok(())
    }
}

/// One step of the session on this host.
fn step(store: &Store, guard: &Guard, step: &str) -> Result<(), String> {
    let before = store.read(guard.fence())?;
    store.write(guard.fence(), step)?;
    println!("{step}, after {} steps", before.len());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let host = async |name: &str| Locker::builder().node(&url).label(name).connect().await;
    let (first, second, third) =
        (host("first").await?, host("second").await?, host("third").await?);
    let store = Store::default();

    let owner = first.lock(SESSION).await?;
    step(&store, &owner, "the first host works")?;
    let refused = second.try_lock(SESSION).await.map(drop);
    println!("the second host may not: {}", refused.is_err());

    // The first host is told to end.
    let ticket = owner.into_ticket(TICKET_FOR).await?;
    let sent = ticket.to_string(); // a secret: as a header to the second host, or in its queue
    let owner = second.adopt(&sent.parse()?).await?;
    step(&store, &owner, "the second host goes on")?;

    // The second host is stuck, and the user has come to the third.
    let next = third.lock(SESSION).steal().await?;
    let former = next.report().taken_from().next().and_then(|former| former.label.clone());
    println!("the third host takes it from {}", former.unwrap_or_default());
    step(&store, &next, "the third host goes on")?;

    // The second host wakes up in the middle of a step, before it is told of its loss.
    if let Err(why) = store.write(owner.fence(), "the second host writes late") {
        println!("refused: {why}");
    }
    println!("the second host is told: {}", owner.lost().await);
    next.release().await?;
    Ok(())
}
