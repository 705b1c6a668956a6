//! Elections: the queue of the lock names the next leader, by priorities that stand in the owners' values.

use crate::machine::{FENCED, Kind};

/// The lock that the leader holds.
pub(crate) static OFFICE: Kind = Kind { goes_on: false, ..FENCED };
