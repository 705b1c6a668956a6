//! A Redis Cluster: which of its nodes serves which key, kept up to date.
//!
//! The map is read without waiting and replaced as a whole. A `MOVED` mends the one slot that it
//! names; it, a node that cannot be reached, and the clock have the whole map asked for again by
//! one task, which asks the nodes that it knows and then the seeds, for ever.
//!
//! Source: "Redirection and resharding" in the Redis Cluster specification.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::sleep;

pub mod host_port;
pub mod map;
pub mod redirect;
pub mod slot;

use self::host_port::HostPort;
use self::map::{BadMap, Map};
use self::redirect::{Kind, Redirect};
use super::call::ask;
use super::command::Command;
use super::endpoint::{Endpoint, Seeds};
use super::kin::Kin;
use super::node::Node;
use super::place::{Detour, Directory, Listing, Tasks, Unheard};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::refusal::{Code, ServerError};
use crate::net::transport::Address;
use crate::policy::Backoff;
use crate::race::{next, timeout};

/// Longest time between two questions for the map where no reply shows that it is old.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// Between two goes at the map, more or less, so that a fleet does not ask in step.
const REFRESH_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };

/// See the module's documentation.
pub(crate) struct Cluster {
    nodes: Nodes,
    routes: ArcSwap<Routes>,
    wanted: Notify,
}

/// The map, with the nodes that it names.
struct Routes {
    map: Map,
    /// In the order of [`Map::masters`].
    masters: Vec<Arc<Node>>,
}

/// The nodes that are connected to, and what is needed for more.
struct Nodes {
    /// Every node is reached as these are.
    seeds: Seeds,
    kin: Kin,
    connected: Mutex<Vec<Arc<Node>>>,
}

impl Cluster {
    /// Finds the cluster that these seeds are of; what each of them says, if none of them knows.
    pub(crate) async fn find(seeds: Seeds, kin: Kin) -> Result<Listing, Vec<Unheard>> {
        let nodes = Nodes { seeds, kin, connected: Mutex::default() };
        let routes = nodes.route(nodes.look_up().await?);
        let routes = ArcSwap::from_pointee(routes);
        let cluster = Arc::new(Self { nodes, routes, wanted: Notify::new() });
        let keeping = Arc::clone(&cluster);
        let mut tasks = Tasks::default();
        tasks.start(async move { keeping.keep_current().await });
        Ok(Listing::new(cluster, tasks))
    }

    /// Asks for the map when somebody wants it, or it is old.
    async fn keep_current(&self) {
        loop {
            sleep(REFRESH_GAP.delay(0, clock::random_bits())).await;
            let _ = timeout(REFRESH_EVERY, pin!(self.wanted.notified())).await;
            // Where nobody knows, the map that there is stays the best.
            if let Ok(map) = self.nodes.look_up().await {
                self.routes.store(Arc::new(self.nodes.route(map)));
                self.nodes.keep(&self.routes.load().masters);
            }
        }
    }

    /// One slot is served there now.
    fn mend(&self, slot: u16, master: HostPort) {
        let map = self.routes.load().map.patch(slot, master);
        self.routes.store(Arc::new(self.nodes.route(map)));
    }
}

impl Nodes {
    fn connected(&self) -> MutexGuard<'_, Vec<Arc<Node>>> {
        lock(&self.connected)
    }

    /// The node at this address, connected to from now on.
    fn at(&self, address: Address) -> Arc<Node> {
        let mut connected = self.connected();
        if let Some(known) = connected.iter().find(|node| node.endpoint().address == address) {
            return Arc::clone(known);
        }
        let endpoint = Endpoint { address, ..self.seeds.endpoints()[0].clone() };
        let node = Arc::new(Node::start(0, endpoint, self.kin.clone()));
        connected.push(Arc::clone(&node));
        node
    }

    fn route(&self, map: Map) -> Routes {
        let masters = map.masters().iter().map(|master| self.at(master.into())).collect();
        Routes { map, masters }
    }

    /// Lets go of nodes that serve nothing any more, unless a lease is with them.
    fn keep(&self, masters: &[Arc<Node>]) {
        self.connected().retain(|node| {
            masters.iter().any(|master| Arc::ptr_eq(master, node)) || Arc::strong_count(node) > 1
        });
    }

    /// Asks one node after the other for the map, until one knows it; those that are not connected all at once, where
    /// none that is knows it.
    fn look_up(&self) -> BoxFuture<'_, Result<Map, Vec<Unheard>>> {
        Box::pin(self.ask_each())
    }

    async fn ask_each(&self) -> Result<Map, Vec<Unheard>> {
        let mut known: Vec<Address> =
            self.connected().iter().map(|node| node.endpoint().address.clone()).collect();
        // Not the same one first each time: it may be the one that is cut off from the others.
        let by_chance = usize::try_from(clock::random_bits() >> 32).unwrap_or(0);
        let first = by_chance % known.len().max(1);
        known.rotate_left(first);
        known.extend(self.seeds.endpoints().iter().map(|seed| seed.address.clone()));
        for address in &known {
            let node = self.at(address.clone());
            if let Ok(connection) = node.connection_now(0) {
                if let Ok(map) = ask_for_map(&connection, node.endpoint()).await {
                    return Ok(map);
                }
            }
        }
        // One that is down is waited for only where all are, and keeps nobody from the others.
        let mut asked = known.into_iter().map(|address| self.ask_in_time(address)).collect();
        let mut unheard = Vec::new();
        while let Some(answer) = next(&mut asked).await {
            match answer {
                Ok(map) => return Ok(map),
                Err(why) => unheard.push(why),
            }
        }
        Err(unheard)
    }

    /// Asks the node at this address once it is connected.
    fn ask_in_time(&self, address: Address) -> BoxFuture<'_, Result<Map, Unheard>> {
        Box::pin(async move {
            let node = self.at(address.clone());
            let answer = match node.connection(0).await {
                Ok(connection) => ask_for_map(&connection, node.endpoint()).await,
                Err(why) => Err(why),
            };
            answer.map_err(|why| Unheard { asked: address, why })
        })
    }
}

/// Where a node was asked; none for a socket, which no cluster listens on.
fn host_port(address: &Address) -> Option<HostPort> {
    match address {
        Address::Tcp { host, port } => Some(HostPort::new(host, *port)),
        #[cfg(unix)]
        Address::Unix { .. } => None,
    }
}

impl Directory for Cluster {
    fn slot(&self, key: &[u8]) -> u16 {
        slot::slot_of(key)
    }

    /// The master of the slot. Of one that has none, the cluster's first says so itself.
    fn serves(&self, slot: u16) -> Arc<Node> {
        let routes = self.routes.load();
        let master = routes.map.owner_of(slot).unwrap_or(0);
        Arc::clone(&routes.masters[master])
    }

    fn detour(&self, error: &ServerError, asked: &Address) -> Option<Detour> {
        let asked = host_port(asked)?;
        let redirect = Redirect::parse(error.text().as_bytes(), &asked);
        let Some(Redirect { kind, slot, to: Some(to) }) = redirect else {
            self.look_again();
            return None;
        };
        let node = self.nodes.at((&to).into());
        if kind == Kind::Moved {
            self.mend(slot, to);
            self.look_again();
        }
        Some(Detour { node, is_asking: kind == Kind::Ask })
    }

    fn look_again(&self) {
        self.wanted.notify_one();
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.routes.load().masters.clone()
    }
}

/// Asks one node for the map.
pub(crate) async fn ask_for_map(
    connection: &Arc<Connection>,
    endpoint: &Endpoint,
) -> Result<Map, OpenError> {
    const SLOTS: &str = "CLUSTER SLOTS";
    let asked = host_port(&endpoint.address).ok_or(OpenError::Unexpected { step: SLOTS })?;
    let reply = ask(connection, Command::Plain(&[b"CLUSTER", b"SLOTS"])).await?;
    match reply.error().map(|text| ServerError::new(text)) {
        None => Map::from_slots(&reply, &asked).map_err(no_map),
        // It is deprecated, and may be gone one day.
        Some(error) if error.code() == Code::Unsupported => {
            let reply = ask(connection, Command::Plain(&[b"CLUSTER", b"SHARDS"])).await?;
            Map::from_shards(&reply, &asked, endpoint.tls).map_err(no_map)
        }
        Some(error) => {
            // Before Redis 7 a server names the whole command.
            let error = error.lacking("+cluster|slots".into());
            connection.note_refused(error.clone());
            Err(OpenError::Refused { step: SLOTS, error })
        }
    }
}

fn no_map(why: BadMap) -> OpenError {
    OpenError::Topology(why.to_string())
}
