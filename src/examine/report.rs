//! What an examination says: findings, each with its severity, its reason and its cure.

use std::fmt;
use std::time::Duration;

use crate::policy::Tolerance;

/// What [`Builder::examine`](crate::Builder::examine) found: of each server, and of all together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examination {
    /// One entry per server, Sentinel, or node that was asked for others.
    pub servers: Vec<ServerExamination>,
    /// What was found of all servers together.
    pub findings: Vec<Finding>,
    /// How many servers have a vote: a Cluster, or a service that Sentinels watch, has one.
    pub votes: usize,
    /// How many of them have to grant a lease; none where the number that was given is impossible.
    pub quorum: Option<usize>,
    /// What they withstand; none where there is no quorum.
    pub tolerance: Option<Tolerance>,
}

/// What was found of one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerExamination {
    /// Its address, or which URL it is where that cannot be read. Never a password.
    pub server: String,
    /// What it is there for.
    pub kind: ServerKind,
    /// What it calls itself, such as `Redis 7.0.15`, made safe for a terminal.
    pub version: Option<String>,
    /// The median of a few round trips.
    pub round_trip: Option<Duration>,
    /// What was found, in the order of [`Check`].
    pub findings: Vec<Finding>,
}

/// What a server is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// It keeps locks.
    Server,
    /// It is asked which nodes a Cluster has.
    Seed,
    /// It is asked which server is the master.
    Sentinel,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, and why it matters. What servers said in it is made safe for a terminal.
    pub reason: String,
    /// What to do about it, if anything.
    pub cure: Option<String>,
}

/// How bad something is; the worst is the largest. There will be no other degrees: a match may name all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing: nothing has to be done about it.
    Note,
    /// Locks work, and less well or less safely than they could.
    Warning,
    /// The server cannot take part, or no locks are available at all.
    Error,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// Whether the URL can be read.
    Url,
    /// Whether it can be connected to, and answers.
    Reachable,
    /// Whether it accepts the login.
    Login,
    /// Which server it is.
    Version,
    /// Whether it has the commands that locks use.
    Commands,
    /// Whether the server speaks RESP3, by which it wakes waiters.
    Protocol,
    /// Whether it is a master.
    Role,
    /// Whether it is a server of its own: not the same one twice, no node of a Cluster, and no other one from
    /// one connection to the next.
    Independence,
    /// Whether the user may do what locks need; tried on a key of its own.
    Rights,
    /// Whether it takes writes now.
    Writes,
    /// Whether it may evict locks.
    Eviction,
    /// Whether it remembers locks over a restart.
    Persistence,
    /// Whether it may vote, or has restarted too recently.
    RestartQuarantine,
    /// Whether it can have a grace after a failover ([`Builder::failover_grace`](crate::Builder::failover_grace)), or has one now.
    Grace,
    /// How its wall clock differs from others.
    Clock,
    /// How long it takes to answer.
    RoundTrip,
    /// What the nodes of a Cluster, or Sentinels, say of where the servers are.
    Topology,
    /// Whether leases outlive the death of a master.
    Failover,
    /// What the servers withstand together.
    Tolerance,
}

impl Examination {
    /// The worst of all findings.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let of_servers = self.servers.iter().map(ServerExamination::severity);
        of_servers.fold(worst(&self.findings), Severity::max)
    }

    /// All findings, each with the server that it is about, if it is about one.
    pub fn all(&self) -> impl Iterator<Item = (Option<&ServerExamination>, &Finding)> {
        let of_one = |server| ServerExamination::findings_of(server);
        let of_all = self.findings.iter().map(|finding| (None, finding));
        self.servers.iter().flat_map(of_one).chain(of_all)
    }
}

impl ServerExamination {
    /// The worst of what was found of it.
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
    /// Its name, which stays: `ok`, `note`, `warning` or `error`.
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
    /// Its name, which stays: in small letters, with hyphens.
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
    /// Its name, which stays: `server`, `seed` or `sentinel`.
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

/// In one line: `warning: eviction: may evict locks (..): set ..`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.check, self.reason)?;
        self.cure.as_ref().map_or(Ok(()), |cure| write!(f, ": {cure}"))
    }
}
