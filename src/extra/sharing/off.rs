//! Without the feature `sharing`, no lock has shares.

/// What nobody wants of a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sharing {}
