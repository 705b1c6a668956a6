//! Which servers are examined, and against what.

use super::judge::Standard;
use super::scratch::Scratch;
use crate::driver::Servers;
use crate::endpoint::{Endpoint, Seeds, Watched};
use crate::machine::Settings;
use crate::names::Key;
use crate::policy::Quorum;

/// Which servers are examined, and against what.
pub(crate) struct Plan {
    pub(crate) candidates: Candidates,
    /// How many votes there are, and how many of them are needed; or why that cannot be.
    pub(crate) votes: usize,
    pub(crate) quorum: Result<Quorum, String>,
    /// How servers are dialled and greeted.
    pub(crate) ways: Servers,
    pub(crate) greeting: Settings,
    pub(crate) standard: Standard,
    pub(crate) scratch: Scratch,
    /// Of which one is each server's, where primaries have a grace.
    pub(crate) markers: Box<[Key]>,
}

/// What the URLs lead to.
pub(crate) enum Candidates {
    /// Servers that stay; or what is wrong with a URL.
    Fixed(Vec<Result<Endpoint, String>>),
    /// Nodes of a Cluster, by which its masters are found.
    Cluster(Seeds),
    /// A service, whose master is found by its Sentinels.
    Service(Watched),
}
