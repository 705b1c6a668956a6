//! The addresses of servers, and how they are dialled.

#[cfg(any(feature = "cluster", feature = "sentinel"))]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "cluster")]
use super::nodes::Nodes;
#[cfg(feature = "sentinel")]
use super::service::Service;
#[cfg(feature = "cluster")]
use crate::cluster::host_port::HostPort;
use crate::endpoint::Endpoint;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use crate::endpoint::Mapped;
use crate::endpoint::credentials::Credentials;
use crate::machine::{Login, Machine};
use crate::net::streams::Connector;
use crate::net::tls::Client;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Servers {
    /// Of a Cluster, the seeds.
    pub(crate) endpoints: Box<[Endpoint]>,
    /// Further state of a Cluster.
    #[cfg(feature = "cluster")]
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// The service to whose master the one link leads.
    #[cfg(feature = "sentinel")]
    pub(crate) service: Option<Arc<Service>>,
    /// The caller's addresses for servers that a Cluster's nodes or Sentinels name.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    pub(crate) mapped: Mapped,
    /// The caller's function that opens connections.
    pub(crate) connector: Option<Connector>,
    /// TLS settings for servers over TLS.
    pub(crate) tls: Option<Client>,
    /// A fingerprint of the servers and the quorum, if there are several.
    pub(crate) fingerprint: Option<Box<str>>,
    /// Dial and handshake together.
    pub(crate) connect_timeout: Duration,
    /// How long a provider of credentials may take for a connection that is up.
    #[cfg(any(test, feature = "credentials"))]
    pub(crate) credentials_within: Duration,
    /// How long the kernel lets sent bytes go unacknowledged.
    pub(crate) dead_after: Duration,
}

impl Servers {
    /// Whether the one server is the master of a service.
    pub(super) fn is_of_service(&self) -> bool {
        #[cfg(feature = "sentinel")]
        return self.service.is_some();
        #[cfg(not(feature = "sentinel"))]
        false
    }

    /// Whether the servers are the nodes of a Cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        #[cfg(feature = "cluster")]
        return self.nodes.is_some();
        #[cfg(not(feature = "cluster"))]
        false
    }

    /// How many servers have a vote.
    pub(crate) fn votes(&self) -> usize {
        if self.is_cluster() { 1 } else { self.endpoints.len() }
    }

    /// The links that lead to servers that are in use.
    #[cfg_attr(not(feature = "cluster"), allow(unused_variables, reason = "all are"))]
    pub(super) fn links(&self, machine: &Machine) -> Vec<usize> {
        #[cfg(feature = "cluster")]
        if self.is_cluster() {
            return machine.masters();
        }
        (0..self.endpoints.len()).collect()
    }

    /// Where a server is reached that others have named.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    pub(crate) fn reach(&self, named: Endpoint) -> Endpoint {
        Endpoint { address: self.mapped.reach(named.address), ..named }
    }

    /// Where a link leads to now, as others name it.
    #[cfg_attr(not(feature = "cluster"), allow(unused_variables, reason = "it knows no more"))]
    pub(super) fn endpoint(&self, link: usize, machine: &Machine) -> Endpoint {
        #[cfg(feature = "sentinel")]
        if let Some(service) = &self.service {
            return service.master();
        }
        #[cfg(feature = "cluster")]
        if self.is_cluster() {
            // All nodes are met as the seeds are.
            let node = HostPort::read(machine.address(link)).expect("nodes are named so");
            return self.endpoints[0].at((&node).into());
        }
        self.endpoints[link].clone()
    }
}

/// How a connection to a server logs in by these credentials, if it does.
pub(crate) fn login_of(endpoint: &Endpoint, credentials: Option<&Credentials>) -> Login {
    Login {
        user: credentials.and_then(|credentials| credentials.user.clone()),
        password: credentials.map(|credentials| credentials.password.expose().to_owned()),
        database: endpoint.database,
        #[cfg(any(test, feature = "credentials"))]
        lasts: None,
    }
}
