//! What the clients of all stores have in common.

use std::error::Error;
use std::time::Duration;

/// Of every store's lease or session: how long a lock outlives a holder that is killed, at most.
pub const LEASE: Duration = Duration::from_secs(2);

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
