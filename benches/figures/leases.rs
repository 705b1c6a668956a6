//! Very many leases, acquired as fast as possible.

use leasehold::{Guard, Locker};

/// Acquires under way at once.
pub const TAKERS: usize = 64;

/// Takes this number of locks, each of a name of its own.
pub async fn take(locker: &Locker, leases: usize) -> Vec<Guard> {
    let takers: Vec<_> = (0..TAKERS)
        .map(|taker| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let mut guards = Vec::new();
                for number in (taker..leases).step_by(TAKERS) {
                    let name = format!("lease:{number}");
                    guards.push(take_one(&locker, &name).await);
                }
                guards
            })
        })
        .collect();
    let mut guards = Vec::with_capacity(leases);
    for taker in takers {
        guards.extend(taker.await.expect("a taker does not panic"));
    }
    guards
}

/// A server that has no time for a while leaves some answers out.
async fn take_one(locker: &Locker, name: &str) -> Guard {
    loop {
        match locker.lock(name).await {
            Err(error) if error.is_unknown() => {}
            outcome => return outcome.expect("it is free"),
        }
    }
}
