//! A service that serves once all shards of a database have been migrated, by any number of workers.
//!
//! `cargo run --features family --example latch [redis://host:port]`; the URL may also stand in LEASEHOLD_URL. Each
//! worker and the service may be processes of their own: they share only the server and the name of the latch.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::{Error, Locker};

const SHARDS: u32 = 3;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locker = Locker::connect(&url).await?;
    // A latch stays open for as long as it is kept. A name of its own begins closed.
    let migrated = locker.latch(format!("example:migrated:{}", std::process::id()), SHARDS);
    let service = tokio::spawn({
        let migrated = migrated.clone();
        async move {
            while !migrated.wait(Duration::from_secs(10)).await?.is_open() {
                println!("still waiting");
            }
            println!("serving");
            Ok::<(), Error>(())
        }
    });
    for shard in 1..=SHARDS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        println!("shard {shard} is migrated");
        // A worker that is not sure whether it has counted down does so again: the shard counts once.
        for _ in 0..2 {
            migrated.count_down(format!("shard-{shard}")).await?;
        }
    }
    service.await.expect("the task runs to its end")
}
