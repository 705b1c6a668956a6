//! What a request starts with, by the settings of its locker.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::{Retry, Term};

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
