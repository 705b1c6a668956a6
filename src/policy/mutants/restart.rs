//! The restart quarantine with a known bug: it takes an uptime for something else than the server says.

use std::time::Duration;

use super::Mutant;
use crate::policy::Moment;
use crate::policy::restart::{self, Run};

/// As [`restart::quarantine`], but for the bug.
pub(crate) fn quarantine(longest_ttl: Duration, run: Run, now: Moment) -> Duration {
    let Run { uptime_secs, .. } = run;
    let believed = match uptime_secs {
        ..0 if Mutant::UptimeUnsigned.is_on() => i64::MAX,
        // The rounding of the uptime is ignored.
        0.. if Mutant::QuarantineShort.is_on() => uptime_secs + 1,
        _ => uptime_secs,
    };
    restart::quarantine(longest_ttl, Run { uptime_secs: believed, ..run }, now)
}
