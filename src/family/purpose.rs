//! The purpose of a call.

/// Why a server is asked.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<W> {
    /// To show the answer. A server that may have forgotten leases is asked too.
    #[cfg(feature = "inspect")]
    Look,
    /// To act on the answer. A server that may not vote is not asked.
    Act,
    /// As [`Purpose::Act`], and to get pushes of changes to the key.
    Watch(W),
}
