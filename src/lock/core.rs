//! What all leases of one locker share.

use super::few::Few;
use crate::policy::Quorum;
use crate::server::node::Node;

/// The servers and how many of them have to agree.
pub(crate) struct Core {
    pub(super) nodes: Few<Node>,
    pub(super) quorum: Quorum,
}

impl Core {
    /// # Panics
    ///
    /// Without a node.
    pub(crate) fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let nodes: Few<Node> = nodes.into_iter().collect();
        let quorum = Quorum::majority(nodes.len());
        Self { nodes, quorum }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}
