//! Repeated looks at a lock, whenever it may have changed.

use std::pin::pin;

use super::look::{Looked, look_all};
use super::spot::Watcher;
use crate::api::Locker as Front;
use crate::clock;
use crate::names::Names;
use crate::policy::{Moment, Next, Rest, Retry, RetryState, Setback, Wait};
use crate::race::{First, race};

/// Watches one lock. Servers push changes; looks are as far apart as a retry policy says.
pub(crate) struct Onlooker {
    front: Front,
    names: [Names; 1],
    watcher: Watcher,
    patience: RetryState,
    /// The earliest and the latest time of the next look; none if a look is due.
    next: Option<(Moment, Moment)>,
    asked_at: Moment,
}

impl Onlooker {
    pub(crate) fn new(front: &Front, names: Names, retry: Retry) -> Self {
        let watcher = Watcher::new(front, &names);
        let forever = std::time::Duration::MAX;
        let retry = retry.attempts(u32::MAX);
        let patience = RetryState::new(Wait::Forever, retry, forever, forever, clock::now());
        let (front, next, asked_at) = (front.clone(), None, clock::now());
        Self { front, names: [names], watcher, patience, next, asked_at }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names[0]
    }

    /// When the last look began.
    pub(crate) fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Makes the next look due.
    pub(crate) fn hasten(&mut self) {
        self.next = None;
    }

    /// Each server's answer, once a look is worth it; none if the locker is shut down.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the next call goes on with the same wait, or looks at once.
    pub(crate) async fn look(&mut self) -> Option<Vec<Looked>> {
        if let First::One(()) = race(pin!(self.watcher.closed()), pin!(self.called())).await {
            return None;
        }
        self.next = None;
        self.watcher.rearm();
        self.asked_at = clock::now();
        let looks = pin!(look_all(&self.front, &self.names, Some(&self.watcher)));
        match race(pin!(self.watcher.closed()), looks).await {
            First::One(()) => None,
            First::Other(looked) => Some(looked.into_iter().flatten().collect()),
        }
    }

    /// Plans the next look, after one with this outcome.
    pub(crate) fn rest(&mut self, setback: Setback) {
        let setback = match setback {
            Setback::Held(frees_in) if self.watcher.is_told() => Setback::Watched(frees_in),
            other => other,
        };
        let now = clock::now();
        // Without a limit of attempts or time there is always a next look.
        if let Next::Rest(Rest { least, most }) =
            self.patience.after(setback, now, clock::random_bits())
        {
            self.next = Some((now.after(least), now.after(most)));
        }
    }

    async fn called(&self) {
        let Some((earliest, latest)) = self.next else { return };
        self.front.sleep(earliest.since(clock::now())).await;
        race(pin!(self.watcher.stirred()), pin!(self.front.sleep(latest.since(clock::now()))))
            .await;
    }
}
