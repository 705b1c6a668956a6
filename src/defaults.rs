//! What a request starts with, by the settings of its locker.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::lock::adaptive::AdaptiveTtl;
use crate::lock::order::Replicas;
use crate::policy::{Retry, Term};
use crate::stats::Meter;

/// What a request starts with.
pub(crate) struct Defaults {
    pub(crate) prefix: Vec<u8>,
    pub(crate) ttl: Duration,
    /// Of leases that are given nothing else, once it was checked.
    pub(crate) term: Term,
    /// Where the TTL follows what was observed.
    pub(crate) adaptive: Option<AdaptiveTtl>,
    pub(crate) min_validity: Option<Duration>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) retry: Retry,
    pub(crate) is_renewed: bool,
    pub(crate) replicas: Option<Replicas>,
}

impl Defaults {
    /// The TTL of a lease that is given none.
    pub(crate) fn ttl(&self, meter: &Meter, expected: Option<Duration>) -> Result<Duration, Error> {
        match (&self.adaptive, expected) {
            (Some(adaptive), _) => Ok(adaptive.ttl(meter, expected)),
            (None, None) => Ok(self.ttl),
            (None, Some(_)) => Err(Error::misuse(
                "LockRequest::expect needs Builder::adaptive_ttl, which bounds the TTL that it chooses",
            )),
        }
    }
}
