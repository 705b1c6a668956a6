//! Whether leases outlive the death of a master. Pure.

use std::time::Duration;

use super::report::{Check, Finding};
use crate::policy::outliving;

/// The setting of a Cluster's nodes that says how long a master is silent before it is replaced.
pub(super) const NODE_TIMEOUT: &str = "cluster-node-timeout";
/// That of Sentinels.
pub(super) const DOWN_AFTER: &str = "down-after-milliseconds";

/// What is to be said of leases of `ttl` where, by `setting`, another takes the place of a master
/// after `silence`.
pub(super) fn failover(setting: &str, silence: Duration, ttl: Duration) -> Finding {
    let least = outliving(silence);
    let reason =
        format!("a dead master is replaced once it has been silent for {silence:?} ({setting})");
    if ttl >= least {
        return Finding::ok(Check::Failover, format!("{reason}: leases of {ttl:?} outlive that"));
    }
    let reason = format!("{reason}: leases of {ttl:?} may end before, and are lost");
    let cure = format!("a TTL of {least:?} (Builder::ttl), or a shorter {setting}");
    Finding::note(Check::Failover, reason).cured_by(cure)
}

#[test]
fn a_ttl_that_does_not_outlive_a_failover_is_noted_with_one_that_does() {
    let of =
        |ttl| failover("cluster-node-timeout", Duration::from_secs(15), Duration::from_secs(ttl));
    assert_eq!(of(30).severity, super::report::Severity::Ok);
    let short = of(10);
    assert_eq!(short.severity, super::report::Severity::Note);
    assert!(short.cure.unwrap().contains("a TTL of 30s"));
}
