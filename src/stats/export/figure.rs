//! What is told.

use std::time::Duration;

use crate::policy::Loss;
use crate::stats::Primitive;

/// What is added to a counter, a gauge or a histogram.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy)]
pub(in crate::stats) enum Figure {
    Attempt,
    Contended,
    Unknown,
    Granted(Duration),
    Refused,
    TimedOut,
    Failed,
    Cancelled,
    LeaseBegan,
    LeaseEnded,
    Released(Duration),
    HandedOver,
    Ticketed,
    Adopted,
    Stolen,
    Renewed(Duration),
    RenewalFailed,
    Repaired,
    LoginRenewed,
    LoginFailed,
    Lost(Loss),
    WaiterJoined,
    WaiterLeft,
    Woken,
    Answered(Primitive, &'static str),
}
