//! Waiting for a key to change, told by the server where it can tell, and else by asking now and then.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::clock;
use crate::lock::engine::Engine;
use crate::lock::names::Key;
use crate::policy::{Backoff, Verdict};
use crate::race::{First, race};
use crate::server::watch::Watch;

/// Between two questions where the server does not tell of changes.
const UNTOLD: Backoff =
    Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(500) };
/// Where it does: a push may be lost with a connection that looks alive.
const TOLD: Duration = Duration::from_secs(30);

/// The locker was shut down.
pub(super) struct Closed;

/// A wait for one key, which is read on the connection that hears of changes.
///
/// In turn: [`Vigil::rearm`], read the key, and [`Vigil::rest`] if what was read is not enough.
pub(super) struct Vigil {
    engine: Arc<Engine>,
    watch: Watch,
    slot: u16,
    rested: u32,
}

impl Vigil {
    pub(super) fn new(engine: Arc<Engine>, key: &Key, slot: u16) -> Self {
        let watch = engine.watchers().watch(key);
        Self { engine, watch, slot, rested: 0 }
    }

    /// From here on a change counts.
    pub(super) fn rearm(&self) {
        self.watch.rearm();
    }

    /// Rests until the key is worth reading again, for at most `longest`.
    pub(super) async fn rest(&mut self, longest: Duration) -> Result<(), Closed> {
        let watching = self.engine.places().iter().map(|place| place.node(self.slot));
        let watching = watching.filter(|node| node.is_watching()).count();
        let told = async {
            if self.engine.quorum().verdict(watching, 0) == Verdict::Won {
                race(pin!(self.watch.stirred()), pin!(sleep(longest.min(TOLD)))).await;
            } else {
                let pause = UNTOLD.delay(self.rested, clock::random_bits());
                sleep(pause.min(longest)).await;
            }
        };
        let rested = race(pin!(told), pin!(self.engine.closed())).await;
        self.rested = self.rested.saturating_add(1);
        match rested {
            First::One(()) => Ok(()),
            First::Other(()) => Err(Closed),
        }
    }
}
