//! Looking at a lock again and again, whenever it may have changed.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use super::engine::Engine;
use super::look::{Looked, Through, look};
use super::names::Names;
use crate::clock;
use crate::policy::{Moment, Next, Rest, Retry, RetryState, Setback, Wait};
use crate::race::{First, all, race};
use crate::server::lookout::Lookout;
use crate::server::watch::Watch;

/// One interest in one lock; servers tell of changes, and are asked no faster than a retry policy says.
pub(crate) struct Onlooker {
    engine: Arc<Engine>,
    names: [Names; 1],
    lookout: Arc<Lookout>,
    watch: Watch,
    patience: RetryState,
    /// The earliest and the latest time of the next look; none where it is due.
    next: Option<(Moment, Moment)>,
    asked_at: Moment,
    /// All servers told of changes to what was read last.
    is_told: bool,
}

impl Onlooker {
    pub(crate) fn new(engine: &Arc<Engine>, names: Names, retry: Retry) -> Self {
        let lookout = engine.lookout();
        let watch = lookout.watch(names.lock());
        let forever = std::time::Duration::MAX;
        let retry = retry.attempts(u32::MAX);
        let patience = RetryState::new(Wait::Forever, retry, forever, forever, clock::now());
        let engine = Arc::clone(engine);
        let (next, asked_at, is_told) = (None, clock::now(), false);
        Self { engine, names: [names], lookout, watch, patience, next, asked_at, is_told }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names[0]
    }

    /// When servers were last asked.
    pub(crate) fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// The next look is due.
    pub(crate) fn hasten(&mut self) {
        self.next = None;
    }

    /// What each server says, once a look is worth it; none where the locker is shut down.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the next call looks at once, or waits for what this one waited for.
    pub(crate) async fn look(&mut self) -> Option<Vec<Looked>> {
        if let First::One(()) = race(pin!(self.engine.closed()), pin!(self.called())).await {
            return None;
        }
        self.next = None;
        self.watch.rearm();
        self.asked_at = clock::now();
        let mut nodes = self.engine.nodes_for(&self.names[0]);
        let is_told = nodes.all(|node| self.lookout.is_told(&node));
        let through = Through::Lookout(&self.lookout);
        let places = self.engine.places().iter();
        let looks = all(places.map(|place| look(place, &self.names, through)));
        let looked = race(pin!(self.engine.closed()), looks).await;
        let First::Other(looked) = looked else { return None };
        self.is_told = is_told;
        Some(looked.into_iter().flatten().collect())
    }

    /// Rests until the next look, after one that came to this.
    pub(crate) fn rest(&mut self, setback: Setback) {
        let setback = match setback {
            Setback::Held(frees_in) if self.is_told => Setback::Watched(frees_in),
            other => other,
        };
        let now = clock::now();
        // Without a limit of attempts or time there is always a next one.
        if let Next::Rest(Rest { least, most }) =
            self.patience.after(setback, false, now, clock::random_bits())
        {
            self.next = Some((now.after(least), now.after(most)));
        }
    }

    async fn called(&self) {
        let Some((earliest, latest)) = self.next else { return };
        sleep(earliest.since(clock::now())).await;
        race(pin!(self.watch.stirred()), pin!(sleep(latest.since(clock::now())))).await;
    }
}
