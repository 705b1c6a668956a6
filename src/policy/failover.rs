//! How long a lease has to be to outlive the failover of its server.

use std::time::Duration;

/// From the moment when the others call a master down to the first renewal with its
/// successor: they agree and elect for up to three seconds, and clients notice and connect.
const BEYOND_SILENCE: Duration = Duration::from_secs(5);

/// The TTL, in whole seconds, of leases that outlive the death of a master, if a failover begins once
/// it has been silent for `silence`.
///
/// A lease is renewed after a third of its TTL, so that it may have only two thirds of it left when
/// the master dies.
pub(crate) fn outliving(silence: Duration) -> Duration {
    let ttl = (silence + BEYOND_SILENCE) * 3 / 2;
    Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0))
}

#[test]
fn two_thirds_of_a_ttl_are_longer_than_the_servers_need() {
    let seconds = Duration::from_secs;
    assert_eq!(outliving(seconds(15)), seconds(30));
    assert_eq!(outliving(seconds(30)), seconds(53));
    assert_eq!(outliving(Duration::from_millis(1)), seconds(8));
}
