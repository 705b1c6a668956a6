//! A TTL that fits how long leases are held and how long renewals take: with a longer one waiters wait longer for a holder
//! that died; with a shorter one there are more renewals.

use std::sync::Mutex;
use std::time::Duration;

use crate::clock;
use crate::error::Error;
use crate::locker::Locker;
use crate::mutex::lock;
use crate::policy::{Moment, Term, Units};
use crate::stats::Stats;

/// How long a choice is good for: to read the statistics costs more than to take a lock, and one lease more cannot move
/// a quantile of many.
const FRESH: Duration = Duration::from_secs(1);
/// The quantile of what was observed that a TTL has to fit. A higher one would follow single
/// outliers; what lies above this one is covered by renewal.
const QUANTILE: f64 = 0.99;
/// A TTL is this many times what leases are held for: a renewal begins at a third of the TTL, and
/// most leases should be given back before their first, which then costs the servers nothing.
const HOLD_FACTOR: u32 = 3;
/// A TTL is at least this many round trips: the last try of a renewal leaves a twentieth of the TTL
/// for its reply, which has to be enough for one. The tries before it have more.
const ROUND_TRIP_FACTOR: u32 = 20;
/// With fewer observations than this, nothing of the uppermost hundredth has been seen in more
/// than one case in twenty (0.99 to this power is 0.049), and the quantile may be far too small.
const OBSERVATIONS_MIN: u64 = 300;

/// A TTL that follows, within bounds, how long the leases of a [`Locker`] are held and how long their renewals take.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::{AdaptiveTtl, Locker};
///
/// let (shortest, longest) = (Duration::from_secs(1), Duration::from_secs(30));
/// let builder = Locker::builder().node("redis://127.0.0.1:6379").max_ttl(longest);
/// let locker = builder.connect().await?;
/// let adaptive = AdaptiveTtl::new(&locker, shortest, longest)?;
/// let guard = locker.lock("report").ttl(adaptive.ttl()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AdaptiveTtl {
    locker: Locker,
    bounds: Bounds,
    chosen: Mutex<Option<(Moment, Duration)>>,
}

impl AdaptiveTtl {
    /// A TTL from `shortest` to `longest`, of which fractions of a millisecond are cut off. It learns from all leases
    /// of `locker`, whatever their TTL, and keeps a clone of `locker`, and so the connections.
    ///
    /// With a restart quarantine or a failover grace a request for a TTL above
    /// [`Builder::max_ttl`](crate::Builder::max_ttl) is refused: set that to `longest` at least.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse), where a bound is no TTL (10 ms to 24 h), or `shortest` exceeds
    /// `longest`.
    pub fn new(locker: &Locker, shortest: Duration, longest: Duration) -> Result<Self, Error> {
        let bounds = Bounds::new(shortest, longest)?;
        Ok(Self { locker: locker.clone(), bounds, chosen: Mutex::new(None) })
    }

    /// The TTL for the next lease: three times as long as 99 of 100 leases are held, and 20 round trips at least.
    ///
    /// It is `longest` until 300 leases have been released, because a TTL that is too long costs time only when a
    /// holder dies. It is chosen again once a second.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        let now = clock::now();
        let mut chosen = lock(&self.chosen);
        let recent = chosen.filter(|(at, _)| now.since(*at) < FRESH);
        let choose = || (now, self.bounds.fit(Observed::of(&self.locker.stats())));
        chosen.insert(recent.unwrap_or_else(choose)).1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    shortest: Duration,
    longest: Duration,
}

/// What is known of the leases of one locker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Observed {
    /// How many leases were given back.
    leases: u64,
    /// The [`QUANTILE`] of how long they were held.
    hold: Option<Duration>,
    /// The [`QUANTILE`] of how long renewals took, or the best estimate while there was none.
    round_trip: Option<Duration>,
}

impl Observed {
    fn of(stats: &Stats) -> Self {
        // Where leases are too short to be renewed, the usual wait is the nearest to a round trip
        // that there is: it is one where nobody contends, and longer where somebody does.
        let renewal = stats.renewal_round_trip.quantile(QUANTILE);
        let round_trip = renewal.or_else(|| stats.wait.quantile(0.5));
        Self { leases: stats.hold.count(), hold: stats.hold.quantile(QUANTILE), round_trip }
    }
}

impl Bounds {
    fn new(shortest: Duration, longest: Duration) -> Result<Self, Error> {
        let whole = |bound| Term::new(bound, None).map(Term::ttl).map_err(Error::misuse);
        let bounds = Self { shortest: whole(shortest)?, longest: whole(longest)? };
        if shortest > longest {
            return Err(Error::misuse(format_args!(
                "shortest adaptive TTL {} exceeds the longest, {}",
                Units(shortest),
                Units(longest)
            )));
        }
        Ok(bounds)
    }

    /// In whole milliseconds.
    fn fit(self, observed: Observed) -> Duration {
        let is_known = observed.leases >= OBSERVATIONS_MIN;
        let Some(hold) = observed.hold.filter(|_| is_known) else { return self.longest };
        let for_round_trips = observed.round_trip.unwrap_or_default();
        let wanted =
            hold.saturating_mul(HOLD_FACTOR).max(for_round_trips.saturating_mul(ROUND_TRIP_FACTOR));
        // Both bounds are whole milliseconds, so rounding up leads past neither.
        up_to_whole_ms(wanted.clamp(self.shortest, self.longest))
    }
}

fn up_to_whole_ms(duration: Duration) -> Duration {
    let over = Duration::from_nanos(u64::from(duration.subsec_nanos() % 1_000_000));
    if over.is_zero() {
        duration
    } else {
        (duration - over).saturating_add(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests;
