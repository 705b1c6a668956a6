//! The result of an examination: findings, each with its severity, its reason and its cure.

use std::fmt;
use std::time::Duration;

use crate::policy::Tolerance;

/// The result of [`Builder::examine`](crate::Builder::examine): findings on each server, and on all together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examination {
    /// One entry for each server, Sentinel, or node that was asked for others.
    pub servers: Vec<ServerExamination>,
    /// The findings on all servers together.
    pub findings: Vec<Finding>,
    /// The number of votes: a Cluster, or a service that Sentinels watch, has one.
    pub votes: usize,
    /// How many of them have to grant a lease; none if the quorum given is impossible.
    pub quorum: Option<usize>,
    /// How many failures they tolerate; none without a quorum.
    pub tolerance: Option<Tolerance>,
}

/// The findings on one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerExamination {
    /// Its address, or the number of its URL if that cannot be read. Never a password.
    pub server: String,
    /// Its role in the configuration.
    pub kind: ServerKind,
    /// Its name and version, such as `Redis 7.0.15`, escaped for a terminal.
    pub version: Option<String>,
    /// The median of a few round trips.
    pub round_trip: Option<Duration>,
    /// The findings, in the order of [`Check`].
    pub findings: Vec<Finding>,
}

/// The role of a server in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// It keeps locks.
    Server,
    /// It names the nodes of a Cluster.
    Seed,
    /// It names the master of a service.
    Sentinel,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, and why it matters. Servers' texts in it are escaped for a terminal.
    pub reason: String,
    /// What to do about it, if anything.
    pub cure: Option<String>,
}

/// How bad a finding is; the worst is the largest. There will be no other variants: a match may name all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing, without anything to do.
    Note,
    /// Locks work, but less well or less safely than they could.
    Warning,
    /// The server cannot take part, or no lock can be acquired.
    Error,
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// Whether the URL is valid.
    Url,
    /// Whether the server can be connected, and replies.
    Reachable,
    /// Whether it accepts the login.
    Login,
    /// Its name and version.
    Version,
    /// Whether it has the commands that locks use.
    Commands,
    /// Whether the server speaks RESP3, which pushes to waiters need.
    Protocol,
    /// Whether it is a master.
    Role,
    /// Whether it is independent: not given twice, no node of a Cluster, and the same server on each connection.
    Independence,
    /// Whether the user has the rights that locks need; tried on scratch keys.
    Rights,
    /// Whether it accepts writes now.
    Writes,
    /// Whether it may evict locks.
    Eviction,
    /// Whether it keeps locks over a restart.
    Persistence,
    /// Whether it may vote, or has restarted too recently.
    RestartQuarantine,
    /// Whether it can have a grace after a failover ([`Builder::failover_grace`](crate::Builder::failover_grace)), or has one now.
    Grace,
    /// How far its wall clock is from others.
    Clock,
    /// How long a round trip takes.
    RoundTrip,
    /// Where the nodes of a Cluster, or Sentinels, say that the servers are.
    Topology,
    /// Whether leases outlive the death of a master.
    Failover,
    /// How many failures the servers tolerate together.
    Tolerance,
}

impl Examination {
    /// The largest severity of all findings.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let of_servers = self.servers.iter().map(ServerExamination::severity);
        of_servers.fold(worst(&self.findings), Severity::max)
    }

    /// All findings, each with its server if it is about one.
    pub fn all(&self) -> impl Iterator<Item = (Option<&ServerExamination>, &Finding)> {
        let of_one = |server| ServerExamination::findings_of(server);
        let of_all = self.findings.iter().map(|finding| (None, finding));
        self.servers.iter().flat_map(of_one).chain(of_all)
    }
}

impl ServerExamination {
    /// The largest severity of its findings.
    #[must_use]
    pub fn severity(&self) -> Severity {
        worst(&self.findings)
    }

    fn findings_of(server: &Self) -> impl Iterator<Item = (Option<&Self>, &Finding)> {
        server.findings.iter().map(move |finding| (Some(server), finding))
    }
}

fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
}

impl Finding {
    pub(super) fn new(check: Check, severity: Severity, reason: impl Into<String>) -> Self {
        Self { check, severity, reason: reason.into(), cure: None }
    }

    pub(super) fn ok(check: Check, reason: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, reason)
    }

    pub(super) fn note(check: Check, reason: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, reason)
    }

    pub(super) fn warning(check: Check, reason: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, reason)
    }

    pub(super) fn error(check: Check, reason: impl Into<String>) -> Self {
        Self::new(check, Severity::Error, reason)
    }

    pub(super) fn cured_by(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

impl Severity {
    /// Its stable name: `ok`, `note`, `warning` or `error`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Check {
    /// Its stable name: in small letters, with hyphens.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Reachable => "reachable",
            Self::Login => "login",
            Self::Version => "version",
            Self::Commands => "commands",
            Self::Protocol => "protocol",
            Self::Role => "role",
            Self::Independence => "independence",
            Self::Rights => "rights",
            Self::Writes => "writes",
            Self::Eviction => "eviction",
            Self::Persistence => "persistence",
            Self::RestartQuarantine => "restart-quarantine",
            Self::Grace => "failover-grace",
            Self::Clock => "clock",
            Self::RoundTrip => "round-trip",
            Self::Topology => "topology",
            Self::Failover => "failover",
            Self::Tolerance => "tolerance",
        }
    }
}

impl ServerKind {
    /// Its stable name: `server`, `seed` or `sentinel`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Seed => "seed",
            Self::Sentinel => "sentinel",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line, such as `warning: eviction: may evict locks (..): set ..`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.check, self.reason)?;
        self.cure.as_ref().map_or(Ok(()), |cure| write!(f, ": {cure}"))
    }
}
