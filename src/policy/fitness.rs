//! Whether a server may take part in a quorum, judged from its INFO once per connection.

use std::fmt;
use std::time::Duration;

use super::shown::Shown;
use super::{Moment, Run, quarantine};

/// The sections of INFO that are read; an ACL can allow each by itself.
pub(crate) const SECTIONS: [&str; 3] = ["server", "memory", "replication"];

/// The field of INFO that says `standalone`, `cluster` or `sentinel`: Redis's name, and Valkey's since
/// its version 8.
pub(crate) const MODE_FIELDS: [&str; 2] = ["redis_mode", "server_mode"];
/// Both names, for messages.
pub(crate) const MODE_FIELD: &str = "redis_mode (server_mode in Valkey)";

/// The sections that are read of a single server, which votes whatever they say: for the id of its run, and
/// for warnings.
pub(crate) const OF_ONE: [&str; 3] = ["server", "memory", PERSISTENCE];
/// The sections of a node of a Cluster. Its run does not matter: the node itself says which slots are not its own.
pub(crate) const OF_NODES: [&str; 1] = ["memory"];
/// The section that says whether locks are kept over a restart.
pub(crate) const PERSISTENCE: &str = "persistence";

/// The fault of a server without an append-only file, and the remedy.
pub(crate) const FORGETS: &str = "a restart may forget held locks";
pub(crate) const KEEP: &str = "set appendonly yes and appendfsync always, or turn on the restart quarantine \
                               (Builder::restart_quarantine, --restart-quarantine on)";

/// The requirements on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The longest TTL that any client uses, if servers that may have forgotten leases must not
    /// vote.
    pub(crate) restart_quarantine: Option<Duration>,
    /// Whether a server that may evict keys is refused.
    pub(crate) strict: bool,
    /// Whether a node of a Cluster is expected.
    pub(crate) in_cluster: bool,
    /// Whether Sentinels named the server.
    #[cfg(any(test, feature = "sentinel"))]
    pub(crate) by_sentinels: bool,
}

/// Whether a server may vote, for the life of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Fit,
    /// The server may have forgotten leases that last until then.
    Quarantined {
        until: Moment,
    },
    Unfit(Unfit),
}

/// What is wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Replica,
    #[cfg(any(test, feature = "sentinel"))]
    NamedReplica,
    ClusterNode,
    #[cfg(any(test, feature = "cluster"))]
    NoNode,
    Sentinel,
    SameAs(String),
    Evicts(String),
    Forgets,
    Unreadable(&'static str),
}

impl Unfit {
    /// Whether this lasts until somebody changes the server or the client: a role and a map can change by themselves.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Replica => false,
            #[cfg(any(test, feature = "sentinel"))]
            Self::NamedReplica => false,
            #[cfg(any(test, feature = "cluster"))]
            Self::NoNode => false,
            _ => true,
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica => {
                f.write_str("a replica, which cannot grant locks: give the master's address")
            }
            #[cfg(any(test, feature = "sentinel"))]
            Self::NamedReplica => f.write_str(
                "a replica, though Sentinels name it as the master: wait for the failover to end, or see what \
                 SENTINEL CKQUORUM says",
            ),
            Self::ClusterNode => f.write_str(
                "a Redis Cluster node, not an independent server: give redis-cluster://host:port alone, or \
                 independent servers",
            ),
            #[cfg(any(test, feature = "cluster"))]
            Self::NoNode => f.write_str(
                "no node of the Cluster that has it in its map: wait for the failover to end (for a minute, if the \
                 Cluster is a new one), or see what CLUSTER NODES says",
            ),
            Self::Sentinel => {
                f.write_str("a Sentinel, which has no locks: give redis-sentinel://host:port/service")
            }
            Self::SameAs(other) => write!(
                f,
                "the same server as {other}: give each server once, because a quorum needs independent servers"
            ),
            Self::Evicts(policy) => {
                write!(f, "may evict locks (maxmemory-policy {}): set noeviction", Shown(policy))
            }
            Self::Forgets => write!(f, "appendonly no: {FORGETS}: {KEEP}"),
            Self::Unreadable(field) => {
                write!(f, "its INFO lacks {field}: give the address of the server itself, not of a proxy")
            }
        }
    }
}

/// The fields of INFO that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// New at each start of a server.
    pub(crate) run_id: String,
    uptime_secs: i64,
    is_replica: bool,
    is_cluster_node: bool,
    maxmemory_policy: String,
}

/// Faults in INFO that are no reason to refuse the server.
pub(crate) fn warnings(info: &str) -> Vec<Unfit> {
    let mut warnings = Vec::new();
    warnings.extend(find(info, "maxmemory_policy").and_then(evicting));
    if find(info, "aof_enabled") == Some("0") {
        warnings.push(Unfit::Forgets);
    }
    warnings
}

/// The id of the server's run, if INFO has it: new at each start.
pub(crate) fn run_id(info: &str) -> Option<&str> {
    find(info, "run_id").filter(|run_id| !run_id.is_empty())
}

/// Whether INFO is of a Sentinel.
pub(crate) fn is_of_sentinel(info: &str) -> bool {
    MODE_FIELDS.into_iter().any(|field| find(info, field) == Some("sentinel"))
}

fn evicting(policy: &str) -> Option<Unfit> {
    (policy != "noeviction").then(|| Unfit::Evicts(policy.to_owned()))
}

/// The value of a field of INFO.
#[inline(never)]
pub(crate) fn find<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.split('\n').find_map(value).map(str::trim_ascii)
}

impl Facts {
    /// Reads the text of INFO's sections.
    pub(crate) fn parse(info: &str) -> Result<Self, Unfit> {
        let find = |name: &str| find(info, name);
        let field = |name: &'static str| find(name).ok_or(Unfit::Unreadable(name));
        let mode = MODE_FIELDS.into_iter().find_map(find);
        let uptime = field("uptime_in_seconds")?.parse();
        Ok(Self {
            run_id: field("run_id")?.to_owned(),
            // An uptime can be negative: the server takes it from its wall clock.
            uptime_secs: uptime.map_err(|_| Unfit::Unreadable("uptime_in_seconds"))?,
            is_replica: field("role")? != "master",
            is_cluster_node: mode.ok_or(Unfit::Unreadable(MODE_FIELD))? == "cluster",
            maxmemory_policy: field("maxmemory_policy")?.to_owned(),
        })
    }

    /// A fault that is no reason to refuse the server, unless the rules are strict.
    fn warning(&self) -> Option<Unfit> {
        evicting(&self.maxmemory_policy)
    }

    /// Judges a server at `now`: its present run was first seen at `first_seen`, and began at
    /// `not_before` at the earliest.
    pub(crate) fn judge(
        &self,
        rules: Rules,
        first_seen: Moment,
        not_before: Option<Moment>,
        now: Moment,
    ) -> Standing {
        if self.is_replica {
            #[cfg(any(test, feature = "sentinel"))]
            if rules.by_sentinels {
                return Standing::Unfit(Unfit::NamedReplica);
            }
            return Standing::Unfit(Unfit::Replica);
        }
        if self.is_cluster_node && !rules.in_cluster {
            return Standing::Unfit(Unfit::ClusterNode);
        }
        if let (true, Some(warning)) = (rules.strict, self.warning()) {
            return Standing::Unfit(warning);
        }
        let Some(longest_ttl) = rules.restart_quarantine else { return Standing::Fit };
        let run = Run { uptime_secs: self.uptime_secs, first_seen, not_before };
        match quarantine(longest_ttl, run, now) {
            Duration::ZERO => Standing::Fit,
            wait => Standing::Quarantined { until: now.after(wait) },
        }
    }
}

#[cfg(test)]
mod tests;
