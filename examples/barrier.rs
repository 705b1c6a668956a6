//! Three workers that go through the rounds of a computation together: none begins a round before all have
//! ended the one before it.
//!
//! `cargo run --features family --example barrier [redis://host:port]`; the URL may also stand in LEASEHOLD_URL. Each
//! worker may be a process of its own: they share only the server and the name of the barrier.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::{Error, Locker};

const WORKERS: u32 = 3;
const ROUNDS: u64 = 2;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locker = Locker::connect(&url).await?;
    // A barrier remembers its generation for as long as it is kept. A name of its own begins at the first.
    let name = format!("example:rounds:{}", std::process::id());
    let workers: Vec<_> = (1..=WORKERS)
        .map(|worker| tokio::spawn(work(locker.clone(), name.clone(), worker)))
        .collect();
    for worker in workers {
        worker.await.expect("the task runs to its end")?;
    }
    Ok(())
}

async fn work(locker: Locker, name: String, number: u32) -> Result<(), Error> {
    let mut worker = locker.barrier(name, WORKERS).party(format!("worker-{number}"));
    for round in 1..=ROUNDS {
        tokio::time::sleep(Duration::from_millis(20) * number).await;
        println!("worker {number} has ended round {round}");
        loop {
            let gathering = worker.wait(Duration::from_secs(10)).await?;
            if gathering.is_open() {
                break;
            }
            println!("worker {number} waits for {} more", gathering.left);
        }
    }
    Ok(())
}
