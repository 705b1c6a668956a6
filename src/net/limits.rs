//! Limits of one reply, on connections whose servers also list other servers.

pub use leasehold_resp::Limits;

/// On a connection to a Cluster's node or a Sentinel. In `CLUSTER SLOTS` each of 16,384 slots may have an entry of its
/// own, with a master and two replicas; `CLUSTER NODES` is one text, with a line for each of 1,000 nodes.
pub const OF_LISTS: Limits = Limits {
    depth: 8,
    bulk_bytes: 1024 * 1024,
    elements: 512 * 1024,
    line_bytes: 16 * 1024,
    frame_bytes: 8 * 1024 * 1024,
};
