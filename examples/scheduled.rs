//! A job that many hosts start at every tick, and one of them runs.
//!
//! `cargo run --features family --example scheduled [redis://host:port]`, in as many terminals as you like; the URL may
//! also stand in LEASEHOLD_URL. It ends after LEASEHOLD_TICKS ticks (5 by default).
//!
//! - The server's clock says which slot is due. A host whose clock is late, or that was paused, asks for the slot that
//!   is due then, so it cannot run one for a second time.
//! - Nothing is held while the job runs. A host that dies in it leaves its slot undone: the job runs at most once. With
//!   `.at_least_once(ttl)` the next host that asks runs such a slot again; then a part of the job may be done twice.
//! - A slot may be run late: a host that was paused between its claim and its work is not stopped. If its writes must
//!   not overwrite those of a later slot, send the slot along, and refuse older ones.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::convert::Infallible;
use std::time::{Duration, UNIX_EPOCH};

use leasehold::once::{JobOutcome, Run, Slot};
use leasehold::{Error, Locker};
use tokio::time::sleep;

/// Short, so that there is something to see.
const PERIOD: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let ticks = std::env::var("LEASEHOLD_TICKS").ok().and_then(|ticks| ticks.parse().ok());
    let locker = Locker::connect(&url).await?;
    let every_second = locker.once("example:scheduled", Slot::every(PERIOD));
    for _ in 0..ticks.unwrap_or(5) {
        let next_in = match every_second.run(job).await {
            Ok(JobOutcome::Ran { next_in, .. } | JobOutcome::Taken { next_in, .. }) => next_in,
            Ok(_) => None,
            Err(error) => {
                println!("no slot is run here: {error}");
                None
            }
        };
        sleep(next_in.unwrap_or(PERIOD)).await;
    }
    println!("done");
    Ok(())
}

async fn job(run: &Run) -> Result<(), Infallible> {
    let slot = run.slot.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    println!("slot {slot} runs here");
    sleep(PERIOD / 20).await;
    Ok(())
}
