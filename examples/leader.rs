//! Candidates, one of which leads at a time, and steps down when it is no longer the leader.
//!
//! `cargo run --features election --example leader [redis://host:port [NAME...]]`; the URL may also stand in
//! LEASEHOLD_URL. Each name is a candidate with a connection of its own; run it in several terminals
//! for candidates of several processes. Delete the key, or pause the process of the leader (Ctrl-Z),
//! and see another take over. Ctrl-C or SIGTERM ends it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::election::Leadership;
use leasehold::{Error, ErrorKind, FencingToken, Locker};
use tokio::task::JoinSet;
use tokio::time::sleep;

const OFFICE: &str = "example:leader";
/// How long nobody leads after a leader has died: as short as the work can bear, and much longer
/// than a pause that is usual.
const TTL: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut given = std::env::args().skip(1);
    let url = given.next().or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = url.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut names: Vec<String> = given.collect();
    if names.is_empty() {
        names = ["ann", "bob", "cid"].map(str::to_owned).into();
    }

    let mut candidates = JoinSet::new();
    let mut lockers = Vec::new();
    for name in names {
        let locker = Locker::builder().node(&*url).ttl(TTL).connect().await?;
        lockers.push(locker.clone());
        candidates.spawn(run_for_office(locker, name));
    }
    told_to_end().await;
    // The next one, in whatever process, leads within a round trip: nobody waits for the TTL.
    for locker in lockers {
        locker.shutdown(Duration::from_secs(2)).await;
    }
    candidates.join_all().await;
    println!("all have retired");
    Ok(())
}

/// Leads whenever the office is free, until the locker is shut down.
async fn run_for_office(locker: Locker, name: String) {
    loop {
        let campaign = async { locker.elect(OFFICE).campaign(&name).await };
        match campaign.await {
            Ok(lead) => serve(&name, lead).await,
            Err(error) if error.kind() == ErrorKind::ShutDown => return,
            // The servers are away: there is no leader, or there is one that knows of no other.
            Err(error) => {
                println!("{name} cannot stand: {error}");
                sleep(TTL).await;
            }
        }
    }
}

/// Leads for as long as the lease holds. It is renewed all the time, so that is until it is lost.
async fn serve(name: &str, lead: Leadership) {
    println!("{name} leads, under token {}", lead.fence());
    // The work is dropped at its next await once the lease is lost: between two of them there must
    // be nothing that takes long, or that blocks.
    let ended = lead.run(govern(lead.fence())).await;
    match ended {
        Ok(()) => println!("{name} steps down by itself"),
        Err(error) => println!("{name} steps down: {error}"),
    }
}

/// What a leader does. It may do a last step after the next one has begun, because it was paused
/// right before; so what it reads and writes has to note the token at the first read, and to refuse a smaller
/// one from then on.
async fn govern(fence: FencingToken) {
    loop {
        decide(fence);
        sleep(STEP).await;
    }
}

fn decide(_fence: FencingToken) {}

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
