use std::time::Duration;

use super::Moment;

/// By how much a server's uptime, in whole seconds, may be overstated.
const UPTIME_ROUNDING: Duration = Duration::from_secs(1);

/// How long a server may not vote yet, because it may have forgotten leases that still run.
///
/// Safety rule 9. A server that lost its memory holds nothing of what it granted before; whatever
/// that was has ended once the longest TTL in use has passed since it started. So it has to be
/// known to have run for that long. Two things bound how long it has run from below: its uptime,
/// and our own time since we first saw this run of it. Either is enough, so the longer counts:
///
/// - Our own time is a bound whatever any wall clock does: a run that we saw has run since.
/// - The uptime is the difference of two readings of the server's wall clock. A step back makes it
///   too small (even negative), which only waits longer, until our own time is enough. A step
///   forward by more than the rounding makes it too large; that same step expires that server's
///   keys early, which counts as a loss of memory of that server already, so it costs the set no
///   more than what k = 2q - N - 1 has to cover anyway.
pub(crate) fn quarantine(
    longest_ttl: Duration,
    uptime_secs: i64,
    first_seen: Moment,
    now: Moment,
) -> Duration {
    let uptime = Duration::from_secs(u64::try_from(uptime_secs).unwrap_or(0));
    let ran_for = uptime.saturating_sub(UPTIME_ROUNDING).max(now.since(first_seen));
    longest_ttl.saturating_sub(ran_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_secs(secs))
    }

    #[test]
    fn a_server_that_has_run_for_the_longest_ttl_may_vote() {
        assert_eq!(quarantine(TTL, 11, at(5), at(5)), Duration::ZERO);
        assert_eq!(quarantine(TTL, 1_000_000, at(5), at(5)), Duration::ZERO);
    }

    #[test]
    fn one_that_has_just_started_waits_out_the_rest() {
        assert_eq!(quarantine(TTL, 0, at(5), at(5)), TTL);
        assert_eq!(quarantine(TTL, 10, at(5), at(5)), Duration::from_secs(1), "10 s may be 9.1");
    }

    /// FACTS: a step of -1 h gave an uptime of -3596 s.
    #[test]
    fn an_uptime_below_zero_is_none_and_our_own_time_ends_the_wait() {
        assert_eq!(quarantine(TTL, -3596, at(5), at(5)), TTL);
        assert_eq!(quarantine(TTL, -3596, at(5), at(12)), Duration::from_secs(3));
        assert_eq!(quarantine(TTL, -3596, at(5), at(15)), Duration::ZERO);
    }
}
