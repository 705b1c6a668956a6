//! A locker's defaults for its requests.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::policy::{Bounds, Retry, Term, Units};

/// What a request starts with.
pub(crate) struct Defaults {
    pub(crate) prefix: Vec<u8>,
    pub(crate) ttl: Duration,
    /// Longer leases could outlive the restart quarantine; none where it is off.
    pub(crate) guarded_ttl: Option<Duration>,
    /// Of leases that are given nothing else, once it was checked.
    pub(crate) term: Term,
    pub(crate) min_validity: Option<Duration>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) retry: Retry,
    pub(crate) is_renewed: bool,
}

impl Defaults {
    /// # Errors
    ///
    /// A lease would be kept for longer than a server that has lost it keeps from voting.
    pub(crate) fn check_kept(&self, term: Term, bounds: Bounds) -> Result<(), Error> {
        let (kept, what) = match bounds.lock_delay {
            None => (term.ttl(), "TTL"),
            Some(delay) => (term.ttl() + delay, "TTL with lock_delay"),
        };
        let Some(longest) = self.guarded_ttl.filter(|longest| kept > *longest) else {
            return Ok(());
        };
        Err(Error::misuse(format_args!(
            "{what} {} exceeds the longest TTL, {}: raise Builder::max_ttl (--max-ttl, --failover-grace) on every client",
            Units(kept),
            Units(longest)
        )))
    }
}
