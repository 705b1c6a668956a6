//! What all leases of one locker share.

use std::time::Duration;

use super::few::Few;
use super::fingerprint::rank;
use crate::policy::Quorum;
use crate::server::node::Node;

/// A leader that takes longer than so many round trips of the others, and this, is not waited for.
const LEAD_ROUND_TRIPS: u32 = 4;
const LEAD_FLOOR: Duration = Duration::from_millis(2);

/// A server that is asked before the others, and how long its answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    pub(super) server: usize,
    pub(super) patience: Duration,
}

/// The servers and how many of them have to agree.
pub(crate) struct Core {
    nodes: Few<Node>,
    quorum: Quorum,
    /// Which configuration this is, where there is more than one server.
    fingerprint: Option<Box<str>>,
    /// The longest TTL that the restart guard waits for, where it is on.
    guarded_ttl: Option<Duration>,
}

impl Core {
    pub(crate) fn new(
        nodes: impl IntoIterator<Item = Node>,
        quorum: Quorum,
        fingerprint: Option<Box<str>>,
        guarded_ttl: Option<Duration>,
    ) -> Self {
        Self { nodes: nodes.into_iter().collect(), quorum, fingerprint, guarded_ttl }
    }

    /// Longer leases could outlive the restart guard; none where it is off.
    pub(crate) fn longest_ttl(&self) -> Option<Duration> {
        self.guarded_ttl
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn quorum(&self) -> Quorum {
        self.quorum
    }

    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// The server that contenders for this key ask first, once they have split the votes: the same
    /// for all, in whatever order they were given the servers; none where there is one server.
    ///
    /// `round_trip` is how long the slowest of the others took: the leader is given a few of them.
    pub(super) fn leader(&self, key: &[u8], round_trip: Duration) -> Option<Lead> {
        if self.is_single() {
            return None;
        }
        let rank = |&server: &usize| rank(key, &self.nodes[server].endpoint().address.to_string());
        let server = (0..self.nodes.len()).max_by_key(rank)?;
        Some(Lead { server, patience: round_trip * LEAD_ROUND_TRIPS + LEAD_FLOOR })
    }

    /// Whether one server decides alone. Then it may raise a token by itself, and it is waited for
    /// when it is away; of several, one that is away is a vote that is missing.
    pub(crate) fn is_single(&self) -> bool {
        self.nodes.len() == 1
    }
}
