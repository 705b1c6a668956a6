//! What is owed where keys move: carried to whichever server serves its slot now.
//!
//! A release that a server refuses because the key has moved, or that a connection's end left
//! unanswered, has to reach the server that has the key now. It may be carried out twice, and is
//! given up once it is pointless.

use tokio::time::timeout;

use super::errands::{Errand, Errands, due_at};
use super::place::{Detour, Directory};
use crate::clock;

/// Carries what comes, for as long as the directory's place lives.
pub(super) async fn run(errands: &Errands, directory: &dyn Directory) {
    loop {
        let mut due = errands.take_due();
        due.retain_mut(|errand| !deliver(errand, directory));
        match errands.put_back(due) {
            None => errands.called.notified().await,
            Some(at) => {
                let _ = timeout(at.since(clock::now()), errands.called.notified()).await;
            }
        }
    }
}

/// Whether it is done with: sent, or pointless. Should it be refused again, it comes back as
/// another errand.
fn deliver(errand: &mut Errand, directory: &dyn Directory) -> bool {
    if errand.owed.pointless_at <= clock::now() {
        return true;
    }
    errand.owed.tries = errand.owed.tries.saturating_add(1);
    errand.due_at = due_at(&errand.owed);
    let slot = errand.owed.slot;
    // Followed once: later on the directory knows better.
    let refused = errand.refused.take();
    let Detour { node, is_asking } = refused
        .and_then(|(asked, error)| directory.detour(&error, &asked))
        .unwrap_or_else(|| Detour { node: directory.serves(slot), is_asking: false });
    let ahead: &[&[u8]] = &[b"ASKING"];
    node.connection_now(errand.lane).is_ok_and(|connection| {
        connection.send_owed_behind(is_asking.then_some(ahead), errand.owed.clone()).is_ok()
    })
}

#[cfg(test)]
mod tests;
