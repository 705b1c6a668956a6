//! The most that a reply may be, by what the connection is for. A server that sends more is not
//! answering us, and its connection ends; what one reply takes in memory is bounded by this.

pub use leasehold_resp::Limits;

/// On a connection to a server whose place is known. The largest reply that is asked for is that of
/// a look at 64 locks, of 4 KiB each at the most; the longest text is one section of `INFO`, which is
/// below 8 KiB but for a line of some 100 bytes for each replica.
pub const OF_LOCKS: Limits = Limits {
    depth: 8,
    bulk_bytes: 64 * 1024,
    elements: 8 * 1024,
    line_bytes: 16 * 1024,
    frame_bytes: 1024 * 1024,
};

/// On a connection to a server that also says where others are: a Cluster's node, or a Sentinel. In
/// `CLUSTER SLOTS` each of 16,384 slots may have an entry of its own, with a master and two replicas; `CLUSTER NODES` is one
/// text, with a line for each of 1,000 nodes.
pub const OF_LISTS: Limits = Limits {
    bulk_bytes: 1024 * 1024,
    elements: 512 * 1024,
    frame_bytes: 8 * 1024 * 1024,
    ..OF_LOCKS
};
