//! The one task that sends again what servers have not answered for good, each release to whichever server
//! serves its slot by then.

use std::pin::pin;
use std::sync::{Arc, Weak};

use super::backlog::{Backlog, Undelivered};
use super::place::{Detour, Place};
use crate::clock;
use crate::net::refusal::ServerError;
use crate::policy::Moment;
use crate::race::timeout;

/// Sends again what is due, for as long as the places are there.
pub(crate) async fn run(backlog: Arc<Backlog>, places: Weak<[Place]>) {
    loop {
        let Some(places) = places.upgrade() else { return };
        let next = deliver_due(&backlog, &places);
        drop(places);
        match next {
            None => backlog.added.notified().await,
            Some(at) => {
                let _ = timeout(at.since(clock::now()), pin!(backlog.added.notified())).await;
            }
        }
    }
}

/// Sends all that is due; when the next release is.
fn deliver_due(backlog: &Backlog, places: &[Place]) -> Option<Moment> {
    let due = backlog.lock().take_due(clock::now());
    for (_, mut release) in due {
        let refused = release.refused.take();
        let place = &places[release.lane.place];
        let Detour { node, is_asking } = destination(place, &release, refused);
        let connection = node.connection_now(release.lane.number).ok();
        let ahead: &[&[u8]] = &[b"ASKING"];
        release.lane.address = node.endpoint().address.clone();
        let ahead = is_asking.then_some(ahead);
        if let Some(due_at) = release.send(connection.as_deref(), ahead) {
            backlog.keep(&mut backlog.lock(), release, due_at);
        }
    }
    backlog.lock().next_due()
}

/// The server that a release is to be sent to. A redirect is followed once: later the directory knows
/// better, and the redirect would undo what the directory has learnt since.
fn destination(place: &Place, release: &Undelivered, refused: Option<ServerError>) -> Detour {
    let Undelivered { owed, lane, .. } = release;
    let followed = refused.zip(place.directory());
    followed
        .and_then(|(error, directory)| directory.detour(&error, &lane.address))
        .unwrap_or_else(|| Detour { node: place.node(owed.slot), is_asking: false })
}

#[cfg(test)]
mod tests;
