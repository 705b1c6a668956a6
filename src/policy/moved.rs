//! A node whose connections lead to more than one run of a server.

use std::time::Duration;

use super::Moment;

/// Until when a node grants nothing new that `met` another run of its server than the one to which other
/// connections of it still lead; none where the run is the same.
///
/// Safety rule 18. The name has moved, or leads to several servers: a DNS name, a proxy, a balancer. What the
/// run before granted is unknown at this one, and lasts. So the node is left for the new run: connections to
/// the run before are closed, and its leases are renewed at the new one, which has them or has them lost.
///
/// That is enough for the leases of this node, and not for those of other clients, which have connections to
/// the run before and do not know. Hence the time: all that they had been granted by `now` ends within the
/// longest TTL, unless they renew it; a client renews a lease after a third of its TTL, for the first time over
/// a connection that it makes for that (the watch lane), and so meets the new run within the time as well.
///
/// What remains is a client that already has all its connections, and makes none: it goes on at the run
/// before, and no other client can know. Nor does a node know that loses its only connection to the one
/// server, and is led to the other: that is what a restart looks like.
///
/// The newer connection wins. A connection to a run that is gone may seem to live for long, and must keep
/// nobody from the server that there is. Where a name leads to two servers in turn, each connection begins the
/// time again, so that nothing is granted at either.
pub(crate) fn moved_until(
    known: &str,
    met: &str,
    longest_ttl: Duration,
    now: Moment,
) -> Option<Moment> {
    (known != met).then(|| now.after(longest_ttl))
}
