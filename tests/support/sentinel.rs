//! A master, two replicas and three Sentinels for one test.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_resp::Frame;

use super::server::{ADMIN, has_least_rights};
use super::watchdog::{Directory, Watchdog};
use super::{Client, RedisServer, STUCK, binary, ports};

/// The Sentinels' name for the master and its replicas.
pub const SERVICE: &str = "main";

const BIND_ATTEMPTS: u32 = 50;
const POLL: Duration = Duration::from_millis(25);
/// Maximum time for a step of the Sentinels. They demote a returned master once it has been up for 8 s, at the next
/// read of its `INFO`, every 10 s; and they begin nothing for 30 s after their own clock jumped by 2 s, as on a busy
/// machine (TILT).
const STEP: Duration = Duration::from_secs(75);
/// A step without progress for this long is started again.
const PUSHED_EACH: Duration = Duration::from_secs(15);

/// Letters and digits; none for no login.
#[derive(Clone, Debug, Default)]
pub struct Passwords {
    pub servers: Option<String>,
    pub sentinels: Option<String>,
}

/// How a service is set up. By default a dead master is replaced in some 6 s; one that is slow for less than 5 s, for
/// example because Sentinels wait for the disk, does not count as dead.
#[derive(Clone, Debug)]
pub struct Setup {
    pub passwords: Passwords,
    pub down_after_ms: u32,
    pub failover_timeout_ms: u32,
}

impl Default for Setup {
    fn default() -> Self {
        let passwords = Passwords::default();
        Self { passwords, down_after_ms: 5_000, failover_timeout_ms: 3_000 }
    }
}

/// Running servers and Sentinels, which end with the test.
pub struct Sentinels {
    // Dropped before the servers, whose directories have the Sentinels' files.
    sentinels: Vec<Sentinel>,
    servers: Vec<RedisServer>,
    passwords: Passwords,
}

struct Sentinel {
    process: Watchdog,
    port: u16,
    answers: bool,
}

impl Sentinels {
    /// Returns once the replicas follow and all Sentinels know each other and the replicas.
    ///
    /// The first of [`Self::servers`] is the master, and the second the replica to be promoted first.
    pub fn start() -> Self {
        Self::start_as(Setup::default())
    }

    /// The same, with passwords.
    pub fn start_with(passwords: Passwords) -> Self {
        Self::start_as(Setup { passwords, ..Setup::default() })
    }

    /// The same, with this setup.
    pub fn start_as(setup: Setup) -> Self {
        let passwords = &setup.passwords;
        let mut builder = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        if let Some(password) = &passwords.servers {
            builder = builder.arg("--requirepass").arg(password).arg("--masterauth").arg(password);
        }
        let master = builder.clone().start();
        let builder = builder.arg("--replicaof").arg("127.0.0.1").arg(master.port().to_string());
        let second_choice = builder.clone().arg("--replica-priority").arg("200");
        let servers = vec![master, builder.start(), second_choice.start()];
        poll("the replicas follow", || {
            let infos = servers[1..].iter().map(|server| server.cli_text(&["INFO", "replication"]));
            infos.into_iter().all(|info| info.contains("master_link_status:up"))
        });
        let port = servers[0].port();
        let start = |server: &RedisServer| Sentinel::start(server.directory(), port, &setup);
        let sentinels = servers.iter().map(start).collect();
        let started = Self { sentinels, servers, passwords: setup.passwords };
        poll("the Sentinels know all", || {
            (0..started.sentinels.len()).all(|index| started.knows_all(index))
        });
        started
    }

    fn knows_all(&self, index: usize) -> bool {
        let master = fields(&self.ask(index, &["SENTINEL", "MASTER", SERVICE]));
        let is = |name: &str, value: &str| master.get(name).is_some_and(|known| known == value);
        let Frame::Array(replicas) = self.ask(index, &["SENTINEL", "REPLICAS", SERVICE]) else {
            return false;
        };
        let links = replicas.iter().filter(|replica| {
            fields(replica).get("master-link-status").is_some_and(|status| status == "ok")
        });
        is("flags", "master") && is("num-other-sentinels", "2") && links.count() == 2
    }

    /// A URL that names every Sentinel, with the servers' password if they have one.
    pub fn url(&self) -> String {
        self.url_of(0..self.sentinels.len())
    }

    /// A URL that names only these Sentinels.
    pub fn url_of(&self, named: impl IntoIterator<Item = usize>) -> String {
        let login = self.passwords.servers.as_ref().map(|password| format!(":{password}@"));
        let port = |index: usize| self.sentinels[index].port;
        let hosts = named.into_iter().map(|index| format!("127.0.0.1:{}", port(index)));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("redis-sentinel://{}{hosts}/{SERVICE}", login.unwrap_or_default())
    }

    /// The ports of the Sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|sentinel| sentinel.port).collect()
    }

    /// The pids of the Sentinels.
    pub fn sentinel_pids(&self) -> Vec<u32> {
        self.sentinels.iter().map(|sentinel| sentinel.process.pid()).collect()
    }

    /// The master and the replicas, whatever their present roles.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The server with this port.
    pub fn server(&self, port: u16) -> &RedisServer {
        let found = self.servers.iter().find(|server| server.port() == port);
        found.unwrap_or_else(|| panic!("no server has port {port}"))
    }

    /// Whether `INFO replication` of the server with this port contains `text`; false if it closes the connection, as
    /// when a Sentinel changes its role.
    pub fn replication_shows(&self, port: u16, text: &str) -> bool {
        let address = self.server(port).address();
        let answer = Client::connect(address, self.passwords.servers.as_deref())
            .and_then(|mut client| client.try_call(&["INFO", "replication"]));
        let info = answer.ok().and_then(|info| info.as_bytes().cloned()).unwrap_or_default();
        String::from_utf8_lossy(&info).contains(text)
    }

    /// Waits until `INFO replication` of the server with this port contains `text`.
    pub async fn wait_until_replication_shows(&self, port: u16, text: &str) {
        let what = format!("the server on port {port} shows {text}");
        self.wait_until(&what, || self.replication_shows(port, text)).await;
    }

    /// Waits until all servers follow the one that the Sentinels name; returns its port.
    pub async fn wait_until_all_follow_one(&self) -> u16 {
        self.wait_until("all servers follow one master", || {
            let master = self.master_port();
            let others = self.servers.iter().map(RedisServer::port).filter(|port| *port != master);
            let following = format!("master_port:{master}");
            others.into_iter().all(|port| self.replication_shows(port, &following))
        })
        .await;
        self.master_port()
    }

    /// The master's port, by the first Sentinel that is up.
    pub fn master_port(&self) -> u16 {
        let index = self.sentinels.iter().position(|sentinel| sentinel.answers);
        self.master_port_by(index.expect("a Sentinel is up")).expect("it knows a master")
    }

    fn master_port_by(&self, index: usize) -> Option<u16> {
        let answer = self.ask(index, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let Frame::Array(address) = answer else {
            return None;
        };
        std::str::from_utf8(address.get(1)?.as_bytes()?).ok()?.parse().ok()
    }

    /// Sends a command to a Sentinel, on a connection of its own.
    pub fn ask(&self, index: usize, command: &[&str]) -> Frame {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.sentinels[index].port));
        let password = self.passwords.sentinels.as_deref();
        Client::connect(address, password).expect("the Sentinel is up").call(command)
    }

    /// SIGKILL; returns the master's port.
    pub fn kill_master(&mut self) -> u16 {
        let port = self.master_port();
        let server = self.servers.iter_mut().find(|server| server.port() == port);
        server.expect("the master is ours").kill();
        port
    }

    /// Starts a killed server again, empty and on its port; the Sentinels set its role.
    pub fn restart(&mut self, port: u16) {
        let server = self.servers.iter_mut().find(|server| server.port() == port);
        server.expect("the server is ours").restart();
    }

    /// SIGKILL.
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].process.end(Directory::Keep);
        self.sentinels[index].answers = false;
    }

    /// Requests a failover while the master is up; waits until the Sentinels have begun.
    pub async fn failover(&self) {
        let index = self.sentinels.iter().position(|sentinel| sentinel.answers);
        let index = index.expect("a Sentinel is up");
        // They refuse until they know a suitable replica.
        self.wait_until("the failover begins", || {
            self.ask(index, &["SENTINEL", "FAILOVER", SERVICE]).error().is_none()
        })
        .await;
    }

    /// Waits until every running Sentinel names the same other master, and that server is one; returns its port.
    ///
    /// On a busy machine a late Sentinel may demote a server that was just promoted. Then the failover is aborted, or
    /// the Sentinels name a master that follows the old one, and leave that so, since no replica is suitable. So this
    /// requests a failover again, and promotes the server that they name, as an operator would.
    pub async fn wait_for_master_other_than(&self, port: u16) -> u16 {
        let pushed_at = Cell::new(Instant::now());
        self.wait_until("there is another master", || {
            let master = self.master_port();
            let mut answering =
                (0..self.sentinels.len()).filter(|index| self.sentinels[*index].answers);
            let asked = answering.clone().next().expect("a Sentinel is up");
            let is_named =
                master != port && answering.all(|index| self.master_port_by(index) == Some(master));
            if is_named && self.replication_shows(master, "role:master") {
                return true;
            }
            if pushed_at.get().elapsed() > PUSHED_EACH {
                pushed_at.set(Instant::now());
                if is_named {
                    self.server(master).cli(&["REPLICAOF", "NO", "ONE"]);
                } else {
                    // One may be under way already.
                    self.ask(asked, &["SENTINEL", "FAILOVER", SERVICE]);
                }
            }
            false
        })
        .await;
        self.master_port()
    }

    /// Fails with all that the Sentinels have printed.
    async fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(
                started.elapsed() < STEP,
                "still not true after {STEP:?}: {what}; Sentinels said:\n{}",
                self.sentinels.iter().map(|it| it.process.log().text()).collect::<String>()
            );
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Sentinel {
    /// Its directory is inside of `directory`, and removed with it.
    fn start(directory: &Path, master: u16, setup: &Setup) -> Self {
        let directory = directory.join("sentinel");
        std::fs::create_dir(&directory).expect("the directory is ours");
        let file = directory.join("sentinel.conf");
        for _ in 0..BIND_ATTEMPTS {
            let port = ports::free();
            let text = configuration(port, master, &directory, setup);
            std::fs::write(&file, text).expect("the directory can be written");
            let command: [OsString; 3] = [binary::path(), file.clone().into(), "--sentinel".into()];
            let mut process = Watchdog::spawn(&command, &directory).expect("sh can be started");
            if process.log().wait_for_any(&["Sentinel ID is"], STUCK) {
                return Self { process, port, answers: true };
            }
            let log = process.log().text();
            process.end(Directory::Keep);
            assert!(log.contains("Address already in use"), "no Sentinel started:\n{log}");
        }
        panic!("no port could be bound in {BIND_ATTEMPTS} attempts");
    }
}

fn configuration(port: u16, master: u16, directory: &Path, setup: &Setup) -> String {
    let Setup { passwords, down_after_ms, failover_timeout_ms } = setup;
    let mut text = format!(
        "port {port}\nbind 127.0.0.1\nprotected-mode no\ndir \"{}\"\n\
         sentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n\
         sentinel failover-timeout {SERVICE} {failover_timeout_ms}\n\
         sentinel parallel-syncs {SERVICE} 2\n",
        directory.display()
    );
    if has_least_rights() {
        text += &format!(
            "sentinel auth-user {SERVICE} {ADMIN}\nsentinel auth-pass {SERVICE} {ADMIN}\n"
        );
    } else if let Some(password) = &passwords.servers {
        text += &format!("sentinel auth-pass {SERVICE} {password}\n");
    }
    if let Some(password) = &passwords.sentinels {
        text += &format!("requirepass {password}\nsentinel sentinel-pass {password}\n");
    }
    text
}

/// Names and values of a list in RESP2.
fn fields(frame: &Frame) -> HashMap<String, String> {
    let Frame::Array(items) = frame else {
        return HashMap::new();
    };
    let text = |frame: &Frame| {
        let bytes = frame.as_bytes().map(AsRef::as_ref).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    items.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Waits for a condition without an event, also outside of a runtime.
fn poll(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < STUCK, "still not true: {what}");
        std::thread::sleep(POLL);
    }
}
