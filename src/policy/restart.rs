use std::time::Duration;

use super::Moment;

/// How far a server's uptime, in whole seconds, may be overstated.
const UPTIME_ROUNDING: Duration = Duration::from_secs(1);

/// What is known of the age of a server's present run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The server's uptime: the difference of two readings of its wall clock.
    pub(crate) uptime_secs: i64,
    /// When we first saw this run.
    pub(crate) first_seen: Moment,
    /// When our connection to the run before it ended, if we had one: this run is not older. If we
    /// noticed the end late, the run only seems younger.
    pub(crate) not_before: Option<Moment>,
}

/// How long a server may not vote yet, because it may have forgotten leases that still run.
///
/// Safety rule 9. A server that lost its memory knows no lease that it granted before; all of these
/// have ended once the longest TTL in use has passed since it started. So it has to be known to have
/// run for that long. Two times bound the age of its run from below: its uptime, and our own time
/// since we first saw this run. Either is enough, so the longer counts:
///
/// - Our own time is a bound whatever any wall clock does.
/// - The uptime follows the server's wall clock. A step back only makes us wait longer. A step forward makes it too large:
///   a process that was connected to the run before does not believe an uptime from before the end of that
///   connection. To others such a step is a loss of that server's memory, and counts against k = 2q - N - 1.
pub(crate) fn quarantine(longest_ttl: Duration, run: Run, now: Moment) -> Duration {
    let uptime = Duration::from_secs(u64::try_from(run.uptime_secs).unwrap_or(0));
    let oldest = run.not_before.map_or(Duration::MAX, |end| now.since(end));
    let certain = uptime.saturating_sub(UPTIME_ROUNDING);
    let by_uptime = if certain <= oldest { certain } else { Duration::ZERO };
    longest_ttl.saturating_sub(by_uptime.max(now.since(run.first_seen)))
}

#[cfg(test)]
mod tests;
