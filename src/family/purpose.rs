//! What servers are asked for.

/// What an answer is wanted for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<W> {
    /// To show it. A server that may have forgotten leases is asked too.
    #[cfg(feature = "inspect")]
    Look,
    /// To act on it. A server that may not vote is not asked.
    Act,
    /// As [`Purpose::Act`]; and this is to hear of changes to what is read.
    Watch(W),
}
