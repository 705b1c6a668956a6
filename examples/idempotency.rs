//! A payment whose client repeats it after a lost answer, and that is charged once.
//!
//! `cargo run --features family --example idempotency [redis://host:port]`; the URL may also stand in LEASEHOLD_URL.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::once::{Attempt, RequestOutcome};
use leasehold::{Error, Locker};

/// How long a client may come back with the same key.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locker = Locker::connect(&url).await?;
    let key = format!("example:payment:{}", std::process::id());
    for body in ["42 EUR to bob", "42 EUR to bob", "7000 EUR to mallory"] {
        println!("POST {body}: {}", post(&locker, &key, body).await?);
    }
    Ok(())
}

/// The answer to a request that has this idempotency key. Bodies are compared; where one may have more than 256
/// bytes, give a digest of it in its place.
async fn post(locker: &Locker, key: &str, body: &str) -> Result<String, Error> {
    let request = locker.idempotent(key, body, KEEP).wait_at_most(Duration::from_secs(5));
    Ok(match request.run(async |attempt| charge(attempt, body)).await? {
        RequestOutcome::Ran(receipt) => format!("201 {}", String::from_utf8_lossy(&receipt)),
        RequestOutcome::Done(receipt) => {
            format!("200 {}, as before", String::from_utf8_lossy(&receipt))
        }
        // The bank has carried it out: the client is told so, and has no reason to try again.
        RequestOutcome::Unkept { result, error } => {
            eprintln!("the receipt is not kept: {error}");
            format!("201 {}", String::from_utf8_lossy(&result))
        }
        RequestOutcome::Running { left } => format!("409, try again in {left:?}"),
        RequestOutcome::KeyReused => "422, the key belongs to another payment".to_owned(),
        RequestOutcome::Failed(error) => format!("402 {error}"),
        _ => "500".to_owned(),
    })
}

/// The bank notes the token before it does anything, and refuses an attempt with a lower one from then on.
fn charge(attempt: &Attempt, body: &str) -> Result<String, &'static str> {
    println!("charging {body}, attempt {}, under token {}", attempt.number, attempt.fence());
    Ok("receipt 1".to_owned())
}
