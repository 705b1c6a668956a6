//! Servers of each store, on free loopback ports, which end with this program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold_testing::watchdog::Watchdog;
use leasehold_testing::{RedisServer, STUCK, ports, unique_name};

use crate::client::Kind;

/// Whether a lock is on a disk before it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    Fsync,
    /// No fsync, or a file system in memory where a server knows no other way.
    Memory,
    /// Locks are never written, whatever the server does with data.
    NotWritten,
}

impl Keeping {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Memory => "memory",
            Self::NotWritten => "locks are not written",
        }
    }
}

pub struct Servers {
    redis: Vec<RedisServer>,
    others: Vec<Watchdog>,
    /// What clients connect to.
    pub address: String,
}

impl Servers {
    /// None where the machine lacks them.
    pub fn start(kind: Kind, count: usize, keeping: Keeping) -> Option<Self> {
        match kind {
            Kind::Leasehold => Some(redis(count, keeping)),
            Kind::PostgresSession | Kind::PostgresTransaction => postgres(),
            Kind::Etcd => etcd(count, keeping),
            Kind::ZooKeeper => zookeeper(count, keeping),
            Kind::Nats => nats(),
        }
    }

    pub fn pids(&self) -> Vec<u32> {
        let redis = self.redis.iter().map(RedisServer::pid);
        redis.chain(self.others.iter().map(Watchdog::pid)).collect()
    }
}

fn redis(count: usize, keeping: Keeping) -> Servers {
    let start = || match keeping {
        Keeping::Fsync => RedisServer::builder().append_only().start(),
        _ => RedisServer::start(),
    };
    let redis: Vec<RedisServer> = (0..count).map(|_| start()).collect();
    let urls: Vec<String> = redis.iter().map(RedisServer::url).collect();
    Servers { redis, others: Vec::new(), address: urls.join(",") }
}

fn directory(keeping: Keeping) -> PathBuf {
    let parent = match keeping {
        Keeping::Memory => PathBuf::from("/dev/shm"),
        _ => std::env::temp_dir(),
    };
    let path = parent.join(unique_name("leasehold-alternatives"));
    std::fs::create_dir(&path).expect("a directory can be made");
    path
}

fn spawn(words: Vec<String>, directory: &Path) -> Watchdog {
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Watchdog::spawn(&words, directory).expect("sh can be started")
}

fn is_there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program} >/dev/null")])
        .status()
        .is_ok_and(|it| it.success())
}

/// Advisory locks are in memory alone, so its fsync says nothing of them.
fn postgres() -> Option<Servers> {
    let places = ["/usr/lib/postgresql/15/bin", "/usr/local/bin", "/usr/bin"];
    let bin = places.into_iter().find(|bin| Path::new(bin).join("initdb").exists())?;
    let directory = directory(Keeping::NotWritten);
    let path = directory.display().to_string();
    // It refuses to run as root.
    let mut prefix = Vec::new();
    if rustix::process::geteuid().is_root() {
        let output = Command::new("id").args(["-u", "postgres"]).output().ok()?;
        let user = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        std::os::unix::fs::chown(&directory, user.parse().ok(), None).ok()?;
        prefix = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]
            .map(str::to_owned)
            .into();
    }
    let with_prefix = |words: &[&str]| -> Vec<String> {
        prefix.iter().cloned().chain(words.iter().map(|&word| word.to_owned())).collect()
    };
    let data = format!("{path}/data");
    let made = with_prefix(&[
        &format!("{bin}/initdb"),
        "--pgdata",
        &data,
        "--username",
        "bench",
        "--auth",
        "trust",
        "--no-sync",
    ]);
    let output = Command::new(&made[0]).args(&made[1..]).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = with_prefix(&[
        &format!("{bin}/postgres"),
        "-D",
        &data,
        "-k",
        &path,
        "-c",
        "listen_addresses=",
        "-c",
        "max_connections=300",
    ]);
    let server = spawn(words, &directory);
    let is_ready = server.log().wait_for_any(&["ready to accept connections"], STUCK);
    assert!(is_ready, "{}", server.log().text());
    let address = format!("host={path} user=bench dbname=postgres");
    Some(Servers { redis: Vec::new(), others: vec![server], address })
}

fn etcd(count: usize, keeping: Keeping) -> Option<Servers> {
    if !is_there("etcd") {
        return None;
    }
    let members: Vec<(u16, u16)> = (0..count).map(|_| (ports::free(), ports::free())).collect();
    let peers: Vec<String> = (members.iter().enumerate())
        .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"))
        .collect();
    let others = members.iter().enumerate().map(|(number, (client, peer))| {
        let directory = directory(keeping);
        let (client, peer) =
            (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let words = [
            "etcd",
            "--name",
            &format!("m{number}"),
            "--data-dir",
            &directory.display().to_string(),
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &peers.join(","),
            "--log-level",
            "error",
            // Shorter leases than its default election timeout allows.
            "--heartbeat-interval",
            "100",
            "--election-timeout",
            "1000",
        ];
        spawn(words.map(str::to_owned).into(), &directory)
    });
    let others = others.collect();
    let addresses: Vec<String> =
        members.iter().map(|(client, _)| format!("127.0.0.1:{client}")).collect();
    Some(Servers { redis: Vec::new(), others, address: addresses.join(",") })
}

fn zookeeper(count: usize, keeping: Keeping) -> Option<Servers> {
    const JAR: &str = "/usr/share/java/zookeeper.jar";
    if !is_there("java") || !Path::new(JAR).exists() {
        return None;
    }
    let members: Vec<[u16; 3]> =
        (0..count).map(|_| [ports::free(), ports::free(), ports::free()]).collect();
    let others = members.iter().enumerate().map(|(number, [client, ..])| {
        let directory = directory(keeping);
        let path = directory.display();
        // A tick of half a second allows sessions of a second.
        let mut text = format!(
            "dataDir={path}\nclientPort={client}\nclientPortAddress=127.0.0.1\ntickTime=500\ninitLimit=20\n\
             syncLimit=10\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        );
        if count > 1 {
            for (other, [_, peer, election]) in members.iter().enumerate() {
                text += &format!("server.{other}=127.0.0.1:{peer}:{election}\n");
            }
        }
        std::fs::write(directory.join("zoo.cfg"), text).expect("a file can be written");
        std::fs::write(directory.join("myid"), number.to_string()).expect("a file can be written");
        let force = if keeping == Keeping::Fsync { "yes" } else { "no" };
        let words = [
            "java", "-Xmx256m", &format!("-Dzookeeper.forceSync={force}"), "-cp", JAR,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", &format!("{path}/zoo.cfg"),
        ];
        spawn(words.map(str::to_owned).into(), &directory)
    });
    let others = others.collect();
    let addresses: Vec<String> =
        members.iter().map(|[client, ..]| format!("127.0.0.1:{client}")).collect();
    Some(Servers { redis: Vec::new(), others, address: addresses.join(",") })
}

/// Buckets say themselves whether they are in memory. One server: three of Debian's version 2.9 let two clients
/// create the same key (nats-io/nats-server#4320).
fn nats() -> Option<Servers> {
    if !is_there("nats-server") {
        return None;
    }
    let (directory, port) = (directory(Keeping::Memory), ports::free());
    let path = directory.display().to_string();
    let words = [
        "nats-server",
        "--addr",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--jetstream",
        "--store_dir",
        &path,
    ];
    let server = spawn(words.map(str::to_owned).into(), &directory);
    let address = format!("127.0.0.1:{port}");
    Some(Servers { redis: Vec::new(), others: vec![server], address })
}
