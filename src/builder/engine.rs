//! From settings to servers that are connected to, for what the machine does not serve yet.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::assembly::Servers;
use super::{Builder, meet};
use crate::clock;
use crate::error::Error;
use crate::lock::answer::Reason;
use crate::lock::core::{Configuration, Core};
use crate::lock::engine::Engine;
use crate::lock::fingerprint::fingerprint;
use crate::lock::renewer::keep;
use crate::lock::scripts;
use crate::net::connection::Settings;
use crate::net::limits::{self, Limits};
use crate::net::tls::Client;
use crate::policy::Quorum;
use crate::policy::fitness::Rules;
use crate::server::backlog::Backlog;
use crate::server::cluster::Cluster;
use crate::server::endpoint::Endpoint;
use crate::server::kin::{Kin, NodeSettings};
use crate::server::node::Node;
use crate::server::place::{Place, Unheard};
use crate::server::registry::Registry;
use crate::server::sentinel::Service;
use crate::server::watch::Watchers;
use crate::stats::Meter;

/// Up to how many commands in flight a caller may write for itself; by `benches/figures.rs` it hardly
/// matters, as long as the commands of callers that wake together are gathered.
const WRITE_INLINE: usize = 4;

impl Builder {
    /// What a locker stands on, once this number of servers serve.
    pub(super) async fn front(&self, least: fn(Quorum) -> usize) -> Result<Arc<Engine>, Error> {
        let servers = self.servers()?;
        let quorum = Quorum::new(servers.places(), self.quorum).map_err(Error::misuse)?;
        self.check()?;
        let tls = self.tls_client(&servers)?;
        let core = self.start(servers, quorum, tls).await?;
        meet::all(&core, least(quorum)).await?;
        let engine = Arc::new(Engine::new(core, &self.defaults.prefix));
        clock::spawn(keep(Arc::downgrade(&engine)));
        Ok(engine)
    }

    pub(super) fn node_settings(
        &self,
        tls: Option<Client>,
        rules: Option<Rules>,
        info_if_allowed: &'static [&'static str],
        limits: Limits,
    ) -> NodeSettings {
        NodeSettings {
            connect_timeout: self.connect_timeout,
            connection: Settings {
                command_timeout: self.command_timeout_or_default(),
                write_inline: WRITE_INLINE,
                limits,
            },
            tls,
            rules,
            info_if_allowed,
            longest_ttl: self.longest_ttl_in_use(),
        }
    }

    async fn start(
        &self,
        servers: Servers,
        quorum: Quorum,
        tls: Option<Client>,
    ) -> Result<Core, Error> {
        let rules = self.rules(&servers);
        let limits = match servers {
            Servers::Fixed(_) => limits::OF_LOCKS,
            Servers::Cluster(_) | Servers::Service(_) => limits::OF_LISTS,
        };
        let info = self.info_if_allowed(&servers, rules.is_some());
        let settings = self.node_settings(tls, rules, info, limits);
        let addresses: Vec<String> = match &servers {
            Servers::Fixed(endpoints) => endpoints.iter().map(|e| e.address.to_string()).collect(),
            Servers::Cluster(_) | Servers::Service(_) => vec![String::new()],
        };
        let fingerprint = (addresses.len() > 1).then(|| fingerprint(&addresses, quorum.needed()));
        let watchers = Arc::new(Watchers::default());
        let meter = Meter::new(self.observer.clone());
        let backlog = Arc::new(Backlog::default());
        let kin = Kin {
            registry: Arc::new(Registry::new(addresses)),
            watchers: Arc::clone(&watchers),
            scripts: scripts::catalog(),
            settings,
            backlog: Arc::clone(&backlog),
            logins: Arc::clone(meter.logins()),
            runtime: Handle::current(),
        };
        let places = match servers {
            Servers::Fixed(endpoints) => fixed(endpoints, &kin),
            Servers::Cluster(seeds) => {
                vec![Place::Listed(Cluster::find(seeds, kin).await.map_err(unheard)?)]
            }
            Servers::Service(watched) => {
                vec![Place::Listed(Service::find(watched, kin).await.map_err(unheard)?)]
            }
        };
        let configuration = Configuration {
            quorum,
            fingerprint,
            command_timeout: self.command_timeout_or_default(),
        };
        Ok(Core::new(places, watchers, backlog, configuration, meter))
    }
}

fn fixed(endpoints: Vec<Endpoint>, kin: &Kin) -> Vec<Place> {
    let nodes = endpoints.into_iter().enumerate();
    nodes
        .map(|(number, endpoint)| {
            Place::Fixed(Arc::new(Node::start(number, endpoint, kin.clone())))
        })
        .collect()
}

fn unheard(all: Vec<Unheard>) -> Error {
    meet::unmet(all.into_iter().map(|Unheard { asked, why }| (asked, Reason::NoConnection(why))))
}
