//! A real Redis Cluster for one test: by default three masters, each with a replica.
//!
//! Nodes are named by their index: 0 to 2 begin as masters and 3 to 5 as their replicas.

mod moving;
mod node;

use std::cell::Cell;
use std::ops::Index;
use std::time::{Duration, Instant};

use self::node::{Node, Turn};
use super::server::Builder;
use super::{RedisServer, STUCK};

/// Time after which a node has given up a failover on request.
const FAILOVER_GIVEN_UP: Duration = Duration::from_secs(6);
const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// Pause between polls, which cost a Cluster time while it changes.
const POLL: Duration = Duration::from_millis(25);

/// A running Cluster. Dropping it ends its servers.
pub struct Cluster {
    nodes: Vec<Node>,
    builder: Builder,
    // Dropped last, so that the next Cluster starts after these nodes have ended.
    _turn: Option<Turn>,
}

impl Cluster {
    /// Returns when all nodes agree, serve, and follow their masters.
    pub fn start() -> Self {
        Self::start_as(&RedisServer::builder())
    }

    /// With each node as `builder` says.
    pub fn start_as(builder: &Builder) -> Self {
        Self::start_nodes(builder, MASTERS, 2 * MASTERS)
    }

    /// A Cluster of this many masters without replicas.
    pub fn of_masters(masters: usize) -> Self {
        Self::of_masters_as(&RedisServer::builder(), masters)
    }

    /// The same, with each node as `builder` says.
    pub fn of_masters_as(builder: &Builder, masters: usize) -> Self {
        Self::start_nodes(builder, masters, masters)
    }

    /// Three masters, the first with a replica, beside any number of other Clusters: its nodes may be slow.
    pub fn start_beside_others() -> Self {
        Self::form_of(&RedisServer::builder(), MASTERS, MASTERS + 1, None)
    }

    fn start_nodes(builder: &Builder, masters: usize, nodes: usize) -> Self {
        Self::form_of(builder, masters, nodes, Some(Turn::wait()))
    }

    fn form_of(builder: &Builder, masters: usize, nodes: usize, turn: Option<Turn>) -> Self {
        let builder = builder.clone();
        let nodes = std::thread::scope(|scope| {
            let starting: Vec<_> =
                (0..nodes).map(|_| scope.spawn(|| Node::start(&builder))).collect();
            let started = starting.into_iter().map(|node| node.join().expect("a node starts"));
            started.collect()
        });
        let mut cluster = Self { nodes, builder, _turn: turn };
        cluster.form(masters);
        cluster
    }

    fn form(&mut self, masters: usize) {
        // Divides the slots as redis-cli does.
        let end = |masters_before: usize| {
            u16::try_from((2 * masters_before * SLOTS + masters) / (2 * masters)).expect("a slot")
        };
        for (index, node) in self.nodes.iter().enumerate() {
            node.ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < masters {
                node.own(end(index), end(index + 1) - 1);
            }
            // Each node meets each other: gossip would take longer.
            self.nodes[..index].iter().for_each(|other| node.meet(other));
        }
        poll("the nodes know each other", || self.know_each_other());
        let replicas = masters..self.nodes.len();
        for replica in replicas.clone() {
            let master = &self.nodes[replica - masters].id;
            self.nodes[replica].ok(&["CLUSTER", "REPLICATE", master]);
        }
        poll("the cluster serves", || {
            self.is_ok() && replicas.clone().all(|replica| self.is_replicated(replica - masters))
        });
    }

    fn answering(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().filter(|node| node.answers)
    }

    fn know_each_other(&self) -> bool {
        let count = self.answering().count();
        self.answering().all(|node| {
            let view = node.view();
            let is_known = |other: &Node| {
                let line = view.iter().find(|line| line.id == other.id);
                line.is_some_and(|line| !line.is("handshake") && !line.is("noaddr"))
            };
            view.len() >= count && self.answering().all(is_known)
        })
    }

    fn is_ok(&self) -> bool {
        self.answering().all(|node| {
            let info = node.server.cli_text(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        })
    }

    /// Whether the replica of `master` follows it, and all nodes know.
    fn is_replicated(&self, master: usize) -> bool {
        let master = &self.nodes[master];
        let replicas = self.answering().filter(|node| node.follows(&master.id));
        let is_known = |replica: &Node| {
            self.answering().all(|node| {
                let view = node.view();
                view.iter().any(|line| line.id == replica.id && line.master == master.id)
            })
        };
        replicas.clone().next().is_some()
            && replicas.into_iter().all(|replica| {
                let info = replica.server.cli_text(&["INFO", "replication"]);
                info.contains("master_link_status:up") && is_known(replica)
            })
    }

    /// A URL that names every node, also those that are down.
    pub fn url(&self) -> String {
        self.seed_url(self.nodes.len())
    }

    /// A URL that names the first `count` nodes.
    pub fn seed_url(&self, count: usize) -> String {
        self.url_of(&(0..count).collect::<Vec<_>>())
    }

    /// A URL that names these nodes, with the password if they have one.
    pub fn url_of(&self, nodes: &[usize]) -> String {
        let url = self.nodes[nodes[0]].server.url();
        let login = url.trim_start_matches("redis://").rsplit_once('@');
        let login = login.map(|(login, _)| format!("{login}@")).unwrap_or_default();
        let hosts = nodes.iter().map(|node| self[*node].address().to_string());
        format!("redis-cluster://{login}{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// All nodes, also those that are down.
    pub fn nodes(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().map(|node| &node.server)
    }

    /// A node's id in the Cluster.
    pub fn id(&self, node: usize) -> &str {
        &self.nodes[node].id
    }

    /// The slot of a key, by a node.
    pub fn slot(&self, key: &str) -> u16 {
        let node = self.answering().next().expect("a node is up");
        node.server.cli_text(&["CLUSTER", "KEYSLOT", key]).parse().expect("a slot")
    }

    /// Whether the key exists at the master that serves its slot.
    pub fn holding(&self, key: &str) -> bool {
        self[self.master_of(self.slot(key))].cli_text(&["EXISTS", key]) == "1"
    }

    /// The node that claims to be the slot's master.
    pub fn master_of(&self, slot: u16) -> usize {
        self.find_master(slot).unwrap_or_else(|| panic!("no node serves slot {slot}"))
    }

    fn find_master(&self, slot: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.answers && node.myself().serves(slot))
    }

    /// The slot of a key, the node that serves it, and another of the first masters, as the target of a move.
    pub fn move_of(&self, key: &str) -> (u16, usize, usize) {
        let slot = self.slot(key);
        let from = self.master_of(slot);
        let to = (0..3).find(|node| *node != from).expect("there are three");
        (slot, from, to)
    }

    /// A replica of `master`.
    pub fn replica_of(&self, master: usize) -> usize {
        let id = &self.nodes[master].id;
        let found = self.nodes.iter().position(|node| node.answers && node.follows(id));
        found.unwrap_or_else(|| panic!("node {master} has no replica"))
    }

    /// SIGKILL.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].server.kill();
        self.nodes[node].answers = false;
    }

    /// Starts the node again on its port; it remembers the Cluster, but no keys.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].server.restart();
        self.nodes[node].answers = true;
    }

    /// SIGSTOP.
    pub fn stop(&mut self, node: usize) {
        self.nodes[node].server.stop();
        self.nodes[node].answers = false;
    }

    /// SIGCONT.
    pub fn cont(&mut self, node: usize) {
        self.nodes[node].server.cont();
        self.nodes[node].answers = true;
    }

    /// Waits until a running node serves the slot and all running nodes agree; returns that node.
    pub async fn wait_until_failed_over(&self, slot: u16) -> usize {
        self.wait_until("a node took over", || {
            let master = self.find_master(slot);
            master.is_some_and(|master| self.agree(slot, master)) && self.is_ok()
        })
        .await;
        self.master_of(slot)
    }

    fn agree(&self, slot: u16, master: usize) -> bool {
        let id = &self.nodes[master].id;
        self.answering().all(|node| {
            let view = node.view();
            view.iter().filter(|line| line.serves(slot)).all(|line| line.id == *id)
                && view.iter().any(|line| line.serves(slot))
        })
    }

    /// Whether all nodes that are up have the same map.
    fn agree_on_all(&self) -> bool {
        let map = |node: &Node| {
            let mut lines = node.view();
            lines.retain(|line| line.is("master") && !line.slots.is_empty());
            lines.sort_by(|one, other| one.id.cmp(&other.id));
            lines.into_iter().map(|line| (line.id, line.slots)).collect::<Vec<_>>()
        };
        let mut maps = self.answering().map(map);
        let first = maps.next();
        maps.all(|map| Some(map) == first)
    }

    /// Promotes a replica of a master, without losing data; returns the replica.
    pub async fn promote_replica_of(&self, master: usize) -> usize {
        // A node that does not know the last change does not vote.
        self.wait_until("all nodes agree", || self.agree_on_all()).await;
        let replica = self.replica_of(master);
        let asked_at = Cell::new(None::<Instant>);
        self.wait_until("it is promoted", || {
            // The master accepts no writes until the failover is done, or given up after 5 s.
            if asked_at.get().is_none_or(|at| at.elapsed() > FAILOVER_GIVEN_UP) {
                asked_at.set(Some(Instant::now()));
                self.nodes[replica].ok(&["CLUSTER", "FAILOVER"]);
            }
            self.nodes[replica].myself().is("master")
        })
        .await;
        replica
    }

    /// Lets no node serve the slot, so that all nodes reply `CLUSTERDOWN`.
    pub fn unserve(&self, slot: u16) {
        self.answering().for_each(|node| node.ok(&["CLUSTER", "DELSLOTS", &slot.to_string()]));
    }

    /// Lets the master `node` serve a slot that no node serves.
    pub fn serve(&self, slot: u16, node: usize) {
        self.nodes[node].ok(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
    }

    /// Starts a master without slots and waits until all nodes know it; returns its index.
    pub async fn add_node(&mut self) -> usize {
        let node = Node::start(&self.builder);
        self.answering().for_each(|other| node.meet(other));
        self.nodes.push(node);
        self.wait_until("the new node is known", || self.know_each_other() && self.is_ok()).await;
        self.nodes.len() - 1
    }

    /// Starts a new node at the address of a killed and forgotten one: a master without slots, which all nodes know.
    pub async fn replace(&mut self, node: usize) {
        let port = self[node].port();
        let new = Node::start(&self.builder.clone().port(port));
        self.answering().for_each(|other| new.meet(other));
        self.nodes[node] = new;
        self.wait_until("the new node is known", || self.know_each_other() && self.is_ok()).await;
    }

    /// Lets the other nodes forget a node, for a minute also against gossip. The node itself goes on, and a master's
    /// replicas refuse to forget it.
    pub fn forget(&self, node: usize) {
        let id = &self.nodes[node].id;
        for other in self.answering().filter(|other| other.id != *id) {
            other.ok(&["CLUSTER", "FORGET", id]);
        }
    }

    /// Ends every client's connection, but none between nodes.
    pub fn kill_all_connections(&self) {
        for node in self.answering() {
            let mut client = node.server.client();
            for kind in ["normal", "pubsub"] {
                client.text(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            }
        }
    }

    async fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        super::soon(what, async {
            while !condition() {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
    }
}

impl Index<usize> for Cluster {
    type Output = RedisServer;

    fn index(&self, index: usize) -> &RedisServer {
        &self.nodes[index].server
    }
}

/// Waits for a condition without an event, also outside of a runtime.
fn poll(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < STUCK, "still not true: {what}");
        std::thread::sleep(POLL);
    }
}
