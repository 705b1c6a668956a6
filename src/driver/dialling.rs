//! Dials, which are tasks of their own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::aside::Aside;
use super::opening::{Halves, Opened, Opening, Unopened};
use super::wire::Writer;
use super::{Shared, Wire};
use crate::clock;
use crate::stats::AtServer;

impl Shared {
    pub(super) fn dial(self: &Arc<Self>, link: usize, within: Duration) {
        // A Cluster counts the nodes that cannot be dialled.
        #[cfg(feature = "sentinel")]
        if !self.servers.is_cluster() {
            self.look_again();
        }
        let (shared, turn) = (Arc::downgrade(self), self.lock().wires[link].turn);
        let dialling = clock::spawn_on(&self.runtime, async move {
            let dialled = dial(&shared, link, within).await;
            if let (Some(shared), Some(dialled)) = (shared.upgrade(), dialled) {
                shared.note_dialled(link, turn, dialled);
            }
        });
        self.lock().wires[link].aside = Some(Aside(dialling.abort_handle()));
    }

    fn note_dialled(&self, link: usize, turn: u32, dialled: Result<Opened<Halves>, Unopened>) {
        let dialled = dialled.map(|Opened { socket: (read, write), bytes, handshake }| {
            // Outside of the mutex: what counts may be a user's code.
            let counted = AtServer::connection(&self.address(link));
            (Arc::new(Writer::new(link, write, counted)), (read, bytes, handshake))
        });
        let mut state = self.lock();
        let wire = &mut state.wires[link];
        // Where the link was led elsewhere just then, this is the second of two: the first is there.
        if turn != wire.turn || wire.writer.is_some() {
            return;
        }
        let dialled = match dialled {
            Ok((writer, ready)) => {
                *wire = Wire { writer: Some(writer), is_again: true, turn, ..Wire::default() };
                Ok(ready)
            }
            Err(Unopened { fault, why }) => {
                (wire.why, wire.aside) = (why, None);
                Err(fault)
            }
        };
        state.dialled.push((link, dialled));
        state.call_task();
    }
}

/// Nothing, where the driver has ended meanwhile.
async fn dial(
    shared: &Weak<Shared>,
    link: usize,
    within: Duration,
) -> Option<Result<Opened<Halves>, Unopened>> {
    let opening = {
        let shared = shared.upgrade()?;
        let endpoint = shared.endpoint(link);
        AtServer::announce(&shared.address(link));
        let state = shared.lock();
        let tls = shared.servers.tls.as_ref().filter(|_| endpoint.tls);
        // When all clients come back to a server at once, none repeats its handshake.
        let is_again = state.wires[link].is_again;
        Opening {
            tls: tls.map(|tls| if is_again { tls.patient() } else { tls.clone() }),
            endpoint,
            connector: shared.servers.connector.clone(),
            settings: *state.machine.settings(),
            dead_after: shared.servers.dead_after,
            began_at: clock::now(),
            within,
            is_bare: false,
        }
    };
    Some(opening.open().await)
}
