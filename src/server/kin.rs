//! What the servers of one set have in common: how they are met, and who hears of them.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::errands::Errands;
use super::fitness::Rules;
use super::registry::Registry;
use super::script::Script;
use super::watch::Watchers;
use crate::net::connection::Settings;
use crate::net::handshake::{Hello, OpenError, Opened, connect};
use crate::net::pushes::Listeners;
use crate::net::tls::Client;
use crate::policy::Backoff;

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
    /// What is owed and has to be carried, where keys move from server to server.
    pub(crate) errands: Option<Arc<Errands>>,
}

/// How a node behaves.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    /// Dial and handshake together.
    pub(crate) connect_timeout: Duration,
    /// Connections to the server that all leases share; others come beside them.
    pub(crate) lanes: usize,
    pub(crate) connection: Settings,
    /// What servers that are to be met over TLS are met with.
    pub(crate) tls: Option<Client>,
    /// What is asked of the server before it may vote; nothing where there are none.
    pub(crate) rules: Option<Rules>,
}

impl NodeSettings {
    /// Opens a connection for which nothing is prepared but the login and the database.
    pub(crate) async fn open_bare(
        &self,
        endpoint: &Endpoint,
        listeners: Listeners,
    ) -> Result<Opened, OpenError> {
        let credentials = endpoint.credentials.as_ref();
        let hello = Hello {
            user: credentials.and_then(|credentials| credentials.user.as_deref()),
            password: credentials.map(|credentials| credentials.password.expose()),
            database: endpoint.database,
            client_name: CLIENT_NAME,
            scripts: &[],
            info: &[],
            tracking: false,
        };
        self.open(endpoint, hello, listeners).await
    }

    /// Opens a connection to this server, over TLS if its URL wants that.
    pub(super) async fn open(
        &self,
        endpoint: &Endpoint,
        hello: Hello<'_>,
        listeners: Listeners,
    ) -> Result<Opened, OpenError> {
        let Endpoint { address, tls, .. } = endpoint;
        let tls = match (tls, &self.tls) {
            (false, _) => None,
            (true, Some(client)) => Some(client),
            (true, None) => return Err(OpenError::NoTls),
        };
        connect(address, tls, hello, self.connection, listeners, self.connect_timeout).await
    }
}
