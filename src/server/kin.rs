//! What the servers of one set share: settings, listeners and meters.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::backlog::Backlog;
use super::registry::Registry;
use super::script::Script;
use super::watch::Watchers;
use crate::clock;
use crate::net::connection::Settings;
use crate::net::tls::Client;
use crate::policy::Backoff;
use crate::policy::fitness::Rules;
use crate::stats::Logins;

/// The name that CLIENT LIST shows.
pub(super) const CLIENT_NAME: &str = "leasehold";
/// Between tries to connect: soon at first, because most ends are short, then once a second.
pub(super) const RECONNECT: Backoff =
    Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };

/// What the servers of one set have in common.
#[derive(Clone)]
pub(crate) struct Kin {
    pub(crate) registry: Arc<Registry>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) scripts: &'static [Script],
    pub(crate) settings: NodeSettings,
    /// Releases that the servers have still to answer.
    pub(crate) backlog: Arc<Backlog>,
    /// How logins that end were renewed.
    pub(crate) logins: Arc<Logins>,
    /// The locker's own, on which its tasks run.
    pub(crate) runtime: Handle,
}

impl Kin {
    /// Starts a task on the locker's runtime. A caller may be on another one, which may end before the
    /// locker does, or have no I/O.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        clock::spawn_on(&self.runtime, task)
    }
}

/// How a node behaves.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    /// Dial and handshake together.
    pub(crate) connect_timeout: Duration,
    pub(crate) connection: Settings,
    /// What servers that are to be met over TLS are met with.
    pub(crate) tls: Option<Client>,
    /// What is asked of the server before it may vote; nothing where there are none.
    pub(crate) rules: Option<Rules>,
    /// The sections of INFO that are of use beside those that the rules need.
    pub(crate) info_if_allowed: &'static [&'static str],
    /// The longest TTL that any client uses.
    pub(crate) longest_ttl: Duration,
}

impl NodeSettings {
    /// Whether it is to be a node of a Cluster.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.rules.is_some_and(|rules| rules.in_cluster)
    }
}
