//! A catalog that many read and one rewrites, and a report that at most two workers make at a time.
//!
//! `cargo run --features sharing --example sharing [redis://host:port]`, in as many terminals as you like; the URL may also stand
//! in LEASEHOLD_URL.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use leasehold::{Error, ErrorKind, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locker = Locker::connect(&url).await?;

    let reader = locker.read("example:catalog").await?;
    let mut other = locker.read("example:catalog").await?;
    println!("two read at once");
    // Only the sole reader may write, so this is refused and never waits.
    match other.upgrade().await {
        Err(error) if error.kind() == ErrorKind::Contended => {
            println!("no writing while another reads");
        }
        outcome => outcome?,
    }
    reader.release().await?;
    other.upgrade().await?;
    println!("now it writes, with a token of its own: {}", other.fence());
    other.downgrade().await?;
    println!("and reads on, as of {}", other.fence());
    other.release().await?;

    let reports = locker.semaphore("example:reports", 2);
    let (first, _second) = (reports.acquire(1).await?, reports.acquire(1).await?);
    match reports.try_acquire(1).await {
        Err(error) if error.kind() == ErrorKind::Contended => {
            println!("two reports are in the making");
        }
        outcome => drop(outcome?),
    }
    let third = tokio::spawn(async move { reports.acquire(1).await });
    first.release().await?;
    let third = third.await.expect("the task runs to its end")?;
    println!("the third is made once one is done");
    third.release().await
}
