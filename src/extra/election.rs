//! Elections: the lock's queue chooses the next leader, by priorities in the owners' values.

use crate::machine::{FENCED, Kind};

/// The lock that the leader holds.
pub(crate) static OFFICE: Kind = Kind { goes_on: false, ..FENCED };
