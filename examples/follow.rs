//! Follows the holder of a lock, such as a leader or a migration, without acquiring the lock.
//!
//! `cargo run --features inspect --example follow [redis://host:port]`; the URL may also stand in
//! LEASEHOLD_URL, and the lock's name in LEASEHOLD_NAME (`example:leader` by default). It ends when nobody has
//! held the lock for a second, or with Ctrl-C.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::inspect::LockState;
use leasehold::{Error, ErrorKind, Locker};
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let name = std::env::var("LEASEHOLD_NAME").unwrap_or_else(|_| "example:leader".to_owned());
    let locker = Locker::connect(&url).await?;
    let mut watch = locker.watch(&name);
    loop {
        let view = match timeout(Duration::from_secs(1), watch.changed()).await {
            Ok(Ok(view)) => view,
            Ok(Err(error)) if error.kind() == ErrorKind::Unavailable => {
                println!("{error}");
                continue;
            }
            Ok(Err(error)) => return Err(error),
            // Nothing has changed: is that because nobody wants the lock?
            Err(_) if locker.inspect(&name).await?.state == LockState::Free => return Ok(()),
            Err(_) => continue,
        };
        match view.holders.first() {
            Some(first) => println!("{name} is held by {}", first.holder),
            None => println!("{name} is free"),
        }
    }
}
