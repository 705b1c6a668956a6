//! Whether leases outlive the death of a master. Pure.

use std::time::Duration;

use super::report::{Check, Finding};
use crate::policy::{Units, outliving};

/// The setting of a Cluster's nodes for how long a master is silent before it is replaced.
pub(super) const NODE_TIMEOUT: &str = "cluster-node-timeout";
/// The same setting of Sentinels.
pub(super) const DOWN_AFTER: &str = "down-after-milliseconds";

/// The finding on leases of `ttl`, if a master is replaced after `silence` by `setting`.
pub(super) fn failover(setting: &str, silence: Duration, ttl: Duration) -> Finding {
    let least = outliving(silence);
    let reason = format!("a master that is silent for {} is replaced ({setting})", Units(silence));
    if ttl >= least {
        return Finding::ok(
            Check::Failover,
            format!("{reason}: leases of {} outlive that", Units(ttl)),
        );
    }
    let reason = format!("{reason}: leases of {} may end before, and be lost", Units(ttl));
    let cure =
        format!("use a TTL of {} (Builder::ttl, --ttl), or a shorter {setting}", Units(least));
    Finding::note(Check::Failover, reason).cured_by(cure)
}

#[test]
fn a_ttl_that_does_not_outlive_a_failover_is_noted_with_one_that_does() {
    let of =
        |ttl| failover("cluster-node-timeout", Duration::from_secs(15), Duration::from_secs(ttl));
    assert_eq!(of(30).severity, super::report::Severity::Ok);
    let short = of(10);
    assert_eq!(short.severity, super::report::Severity::Note);
    assert!(short.cure.unwrap().contains("a TTL of 30 s"));
}
