//! Which servers are examined, and by which standard.

use super::judge::Standard;
use super::scratch::Scratch;
use crate::driver::Servers;
use crate::endpoint::{Endpoint, Seeds, Watched};
use crate::machine::Settings;
use crate::names::Key;
use crate::policy::Quorum;

/// Which servers are examined, and by which standard.
pub(crate) struct Plan {
    pub(crate) candidates: Candidates,
    /// The number of votes, and the quorum or why that is impossible.
    pub(crate) votes: usize,
    pub(crate) quorum: Result<Quorum, String>,
    /// How servers are dialled and greeted.
    pub(crate) ways: Servers,
    pub(crate) greeting: Settings,
    pub(crate) standard: Standard,
    pub(crate) scratch: Scratch,
    /// The markers, of which each server has one if a failover has a grace.
    pub(crate) markers: Box<[Key]>,
}

/// What the URLs lead to.
pub(crate) enum Candidates {
    /// Servers at fixed addresses; or what is wrong with a URL.
    Fixed(Vec<Result<Endpoint, String>>),
    /// Nodes of a Cluster, which name its masters.
    Cluster(Seeds),
    /// A service, whose Sentinels name its master.
    Service(Watched),
}
