//! Acquires a lock, works under it, releases it.
//!
//! `cargo run --example quickstart [redis://host:port]`; the URL may also stand in LEASEHOLD_URL.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use leasehold::{Error, FencingToken, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let locker = Locker::connect(&url()).await?;

    let guard = locker.lock("invoice:42").await?;
    charge(guard.fence());
    guard.release().await?;

    Ok(())
}

/// Whatever the lock protects: it keeps the largest token it has seen, from the first read under it on, and
/// refuses smaller ones, so that a holder that was paused past the end of its lease can do no harm.
fn charge(token: FencingToken) {
    println!("charging invoice 42 under token {token}");
}

fn url() -> String {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())
}
