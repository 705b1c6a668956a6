//! A crawler on many hosts, which together request pages of a site no faster than a limit.
//!
//! `cargo run --features family --example limit [redis://host:port]`, in as many terminals as you like; the URL may also
//! stand in LEASEHOLD_URL. However many run, they fetch five pages a second together.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::limits::{Allowance, Rate};
use leasehold::{Error, Locker};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any queue should be.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locker = Locker::connect(&url).await?;

    // Evenly: one each 200 ms. The server books the next free moment, and the caller sleeps until then.
    let fetches = locker.limit("example:crawler", Rate::new(5, SECOND).burst(1));
    for page in 1..=5 {
        match fetches.wait(1, PATIENCE).await? {
            Allowance::Refused { retry_after } => println!("too long a queue: {retry_after:?}"),
            _ => println!("page {page} is fetched"),
        }
    }

    // Without waiting, as a service does: a client that asks too often is told when to come back.
    let logins = locker.limit("example:logins:alice", Rate::new(3, PATIENCE));
    while let Allowance::Allowed { left } = logins.take(1).await? {
        println!("a login is tried, {left} left");
    }
    println!("429 Too Many Requests");
    Ok(())
}
