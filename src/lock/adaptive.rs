//! A TTL that follows what was observed.

use std::sync::Mutex;
use std::time::Duration;

use crate::clock;
use crate::mutex::lock;
use crate::policy::{Adaptive, Moment, Observed};
use crate::stats::Meter;

/// How long what was observed is good for: to read it costs more than to take a lock.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct AdaptiveTtl {
    policy: Adaptive,
    observed: Mutex<Option<(Moment, Observed)>>,
}

impl AdaptiveTtl {
    pub(crate) fn new(policy: Adaptive) -> Self {
        Self { policy, observed: Mutex::new(None) }
    }

    /// The TTL for the next lease, which is expected to be held for that long, if that is known.
    pub(crate) fn ttl(&self, meter: &Meter, expected: Option<Duration>) -> Duration {
        let now = clock::now();
        let mut observed = lock(&self.observed);
        let recent = observed.filter(|(at, _)| now.since(*at) < FRESH);
        let (_, known) = *observed.insert(recent.unwrap_or_else(|| (now, meter.observed())));
        self.policy.ttl(known, expected)
    }
}
