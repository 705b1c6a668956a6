use std::time::Duration;

use super::Moment;

/// By how much a server's uptime, in whole seconds, may be overstated.
const UPTIME_ROUNDING: Duration = Duration::from_secs(1);

/// What is known of how long a server's present run has lasted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// What the server says: the difference of two readings of its wall clock.
    pub(crate) uptime_secs: i64,
    /// When we first saw this run.
    pub(crate) first_seen: Moment,
    /// When our connection to the run before it ended, if we had one: this run is not older. That
    /// we may have noticed the end late only makes it seem younger.
    pub(crate) not_before: Option<Moment>,
}

/// How long a server may not vote yet, because it may have forgotten leases that still run.
///
/// Safety rule 9. A server that lost its memory holds nothing of what it granted before; whatever
/// that was has ended once the longest TTL in use has passed since it started. So it has to be
/// known to have run for that long. Two things bound how long it has run from below: its uptime,
/// and our own time since we first saw this run of it. Either is enough, so the longer counts:
///
/// - Our own time is a bound whatever any wall clock does: a run that we saw has run since.
/// - The uptime follows the server's wall clock. A step back makes it too small (even negative),
///   which only waits longer, until our own time is enough. A step forward makes it too large:
///   a process that was connected to the run before knows that this one is not older than the end of that
///   connection, and does not believe an uptime that says so. For a process that was not connected, such a step is a loss of
///   memory of that server like the early expiry that it brings to the server's keys, and counts
///   against k = 2q - N - 1.
pub(crate) fn quarantine(longest_ttl: Duration, run: Run, now: Moment) -> Duration {
    let uptime = Duration::from_secs(u64::try_from(run.uptime_secs).unwrap_or(0));
    let oldest = run.not_before.map_or(Duration::MAX, |end| now.since(end));
    let certain = uptime.saturating_sub(UPTIME_ROUNDING);
    let by_uptime = if certain <= oldest { certain } else { Duration::ZERO };
    longest_ttl.saturating_sub(by_uptime.max(now.since(run.first_seen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_secs(secs))
    }

    fn wait(uptime_secs: i64, first_seen: u64, not_before: Option<u64>, now: u64) -> Duration {
        let run = Run { uptime_secs, first_seen: at(first_seen), not_before: not_before.map(at) };
        quarantine(TTL, run, at(now))
    }

    #[test]
    fn a_server_that_has_run_for_the_longest_ttl_may_vote() {
        assert_eq!(wait(11, 5, None, 5), Duration::ZERO);
        assert_eq!(wait(1_000_000, 5, None, 5), Duration::ZERO);
    }

    #[test]
    fn one_that_has_just_started_waits_out_the_rest() {
        assert_eq!(wait(0, 5, None, 5), TTL);
        assert_eq!(wait(10, 5, None, 5), Duration::from_secs(1), "10 s may be 9.1");
    }

    /// On Redis 7.0, a step of -1 h gave an uptime of -3596 s.
    #[test]
    fn an_uptime_below_zero_is_none_and_our_own_time_ends_the_wait() {
        assert_eq!(wait(-3596, 5, None, 5), TTL);
        assert_eq!(wait(-3596, 5, None, 12), Duration::from_secs(3));
        assert_eq!(wait(-3596, 5, None, 15), Duration::ZERO);
    }

    /// A reboot after which the clock is set forward by an hour.
    #[test]
    fn an_uptime_that_reaches_back_before_the_run_before_is_not_believed() {
        assert_eq!(wait(3600, 53, Some(50), 53), TTL);
        assert_eq!(wait(3600, 53, Some(50), 60), Duration::from_secs(3));
        assert_eq!(wait(12, 53, Some(40), 53), Duration::ZERO, "it can be true");
    }
}
