//! The same pairs by Leasehold.

use leasehold::{Fencing, LockRequest, Locker};

use super::wire::Kind;

pub async fn pair(locker: &Locker, kind: Kind, name: &str) {
    match kind {
        Kind::Fenced => take_and_release(locker.lock(name)).await,
        Kind::Unfenced => take_and_release(locker.lock(name).unfenced()).await,
    }
}

async fn take_and_release<F: Fencing>(request: LockRequest<F>) {
    let guard = request.await.expect("nobody else takes the lock");
    guard.release().await.expect("nobody else gives it back");
}
