//! A worker that shuts down: Ctrl-C or SIGTERM ends its work and releases its locks, so that no client has to wait for
//! their TTLs.
//!
//! `cargo run --example shutdown [redis://host:port]`; the URL may also stand in LEASEHOLD_URL.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let locker = Locker::builder().node(url()).label("shutdown example").connect().await?;
    let worker = tokio::spawn(work(locker.clone()));

    told_to_end().await;
    let report = locker.shutdown(Duration::from_secs(2)).await;
    println!("given back: {:?}", report.released);
    for left in report.unreleased {
        println!("not given back, and free when its TTL is over: {}: {}", left.name, left.reason);
    }
    match worker.await {
        Ok(Err(error)) => println!("the worker has ended: {error}"),
        ended => println!("the worker has ended: {ended:?}"),
    }
    println!("{}", locker.stats());
    Ok(())
}

fn url() -> String {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())
}

/// Works for ever; the lease is lost when the locker is shut down, and the work dropped.
async fn work(locker: Locker) -> Result<(), Error> {
    locker
        .with_lock("example:nightly", async |lease| {
            println!("working, with token {}; end me with Ctrl-C or SIGTERM", lease.fence());
            std::future::pending::<()>().await;
        })
        .await
}

#[cfg(unix)]
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    let _ = tokio::signal::ctrl_c().await;
}
