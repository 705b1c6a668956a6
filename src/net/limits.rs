//! Limits of one reply, by the purpose of the connection; they bound the memory of a reply. A larger reply ends the
//! connection.

pub use leasehold_resp::Limits;

/// On a connection to a server at a known address. The largest reply is that of a look at 64 locks of at most 4 KiB
/// each; the longest text is one section of `INFO`, below 8 KiB and some 100 bytes for each replica.
pub const OF_LOCKS: Limits = Limits {
    depth: 8,
    bulk_bytes: 64 * 1024,
    elements: 8 * 1024,
    line_bytes: 16 * 1024,
    frame_bytes: 1024 * 1024,
};

/// On a connection to a Cluster's node or a Sentinel, which also list other servers. In `CLUSTER SLOTS` each of 16,384
/// slots may have an entry of its own, with a master and two replicas.
pub const OF_LISTS: Limits =
    Limits { elements: 512 * 1024, frame_bytes: 8 * 1024 * 1024, ..OF_LOCKS };
