//! Very many lockers, each with a connection of its own.

use leasehold::Locker;
use tokio::task::JoinSet;

/// Dials under way at once.
const AT_ONCE: usize = 16;

pub async fn connect(url: &str, count: usize) -> Vec<Locker> {
    let mut lockers = Vec::with_capacity(count);
    while lockers.len() < count {
        let mut dials = JoinSet::new();
        for _ in lockers.len()..count.min(lockers.len() + AT_ONCE) {
            let url = url.to_owned();
            dials.spawn(async move { Locker::connect(&url).await.expect("the server is up") });
        }
        lockers.extend(dials.join_all().await);
    }
    lockers
}
