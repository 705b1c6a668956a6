//! Servers whose counters are set back, each in its way.

use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Locker};
use leasehold_testing::sentinel::Setup;
use leasehold_testing::{RedisServer, Sentinels, soon};
use tokio::runtime::Handle;

use super::caller::LONGEST;
use super::has_grace;
use super::issued::Stage;
use crate::prng::Prng;

/// How long nobody is granted anything before counters are set back: longer than a request has the proposal that
/// it began with, and than a client may draw tokens without the script (docs/guarantees.md).
const GOES_ON: Duration = Duration::from_millis(2000);
/// How long a step may take on a busy machine.
const STEP: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One server, which is killed and begins again with a snapshot from before.
    Snapshot,
    /// One server, which becomes the replica of one that has not heard all, and a master again. Its connections
    /// stay.
    ReplicaOf,
    /// A replica that Sentinels promote, with or without a SIGKILL of the master; most of them have not heard all.
    Sentinels,
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "snapshot" => Ok(Self::Snapshot),
            "replicaof" => Ok(Self::ReplicaOf),
            "sentinel" => Ok(Self::Sentinels),
            _ => Err(()),
        }
    }
}

impl Kind {
    pub(crate) fn counted_as(self) -> &'static str {
        match self {
            Self::Snapshot => "failovers: older snapshots",
            Self::ReplicaOf => "failovers: demoted and promoted again",
            Self::Sentinels => "failovers: by Sentinels",
        }
    }
}

pub(crate) enum Servers {
    Snapshot(RedisServer),
    /// The one with the clients, and the other.
    ReplicaOf(RedisServer, RedisServer),
    Sentinels(Box<Sentinels>),
}

/// Waits for what has no event, unless it is over because something has failed.
fn until(stage: &Stage, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !stage.is_over.load(Ordering::Relaxed) && !condition() {
        assert!(started.elapsed() < STEP, "still not true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn follow(replica: &RedisServer, master: &RedisServer) {
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
}

fn is_linked(replica: &RedisServer) -> bool {
    replica.cli_text(&["INFO", "replication"]).contains("master_link_status:up")
}

impl Servers {
    /// Blocks.
    pub(crate) fn start(kind: Kind) -> Self {
        let builder = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        match kind {
            Kind::Snapshot => Self::Snapshot(builder.start()),
            Kind::ReplicaOf => Self::ReplicaOf(builder.clone().start(), builder.start()),
            Kind::Sentinels => {
                // Nobody but this program has a replica promoted.
                let down_after_ms = 120_000;
                let sentinels = Sentinels::start_as(Setup { down_after_ms, ..Setup::default() });
                // Else each step of a failover takes up to ten seconds.
                for sentinel in 0..sentinels.sentinel_ports().len() {
                    let periods =
                        ["INFO-PERIOD", "500", "PUBLISH-PERIOD", "300", "TILT-PERIOD", "1000"];
                    let set =
                        sentinels.ask(sentinel, &[&["SENTINEL", "DEBUG"], &periods[..]].concat());
                    assert!(set.error().is_none(), "{set:?}");
                }
                Self::Sentinels(Box::new(sentinels))
            }
        }
    }

    pub(crate) async fn locker(&self) -> Locker {
        let url = match self {
            Self::Snapshot(server) | Self::ReplicaOf(server, _) => server.url(),
            Self::Sentinels(sentinels) => sentinels.url(),
        };
        let connecting = async {
            loop {
                let builder = Locker::builder().nodes([url.clone()]);
                let builder = builder.command_timeout(Duration::from_millis(500));
                let builder = match has_grace() {
                    true => builder.ttl(LONGEST).failover_grace(true),
                    false => builder,
                };
                match builder.connect_timeout(Duration::from_millis(500)).connect().await {
                    Ok(locker) => break locker,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
            }
        };
        soon("a locker", connecting).await
    }

    /// Sets the counters back once each kind of token was issued, and waits until each is issued again.
    /// Blocks, and must be called inside a runtime.
    pub(crate) fn fail_over(&mut self, stage: &Stage, prng: &mut Prng) {
        match self {
            Self::Snapshot(server) => {
                std::thread::sleep(prng.millis(0..200));
                server.cli(&["SAVE"]);
                use_on(stage, prng, "after the snapshot");
                server.kill();
                std::thread::sleep(GOES_ON + prng.millis(0..200));
                server.restart();
            }
            Self::ReplicaOf(server, other) => demote_and_promote(server, other, stage, prng),
            Self::Sentinels(sentinels) => promote_another(sentinels, stage, prng),
        }
        stage.recorder.note("failed over".to_owned());
        use_on(stage, prng, "after the failover");
    }
}

/// Until each kind of token was asked for and issued, and a moment longer.
fn use_on(stage: &Stage, prng: &mut Prng, when: &str) {
    let now = stage.now();
    until(stage, &format!("tokens of each kind {when}"), || stage.has_all_since(now));
    std::thread::sleep(prng.millis(0..100));
}

fn demote_and_promote(server: &RedisServer, other: &RedisServer, stage: &Stage, prng: &mut Prng) {
    follow(other, server);
    until(stage, "the other follows", || is_linked(other));
    std::thread::sleep(prng.millis(0..200));
    other.cli(&["REPLICAOF", "NO", "ONE"]);
    use_on(stage, prng, "that the other does not hear of");
    // What they do not ask for meanwhile, no refusal tells them of.
    stage.is_night.store(prng.percent(75), Ordering::Relaxed);
    std::thread::sleep(prng.millis(50..150));
    let demoted = Instant::now();
    follow(server, other);
    until(stage, "it follows the other", || is_linked(server));
    let rest = GOES_ON + prng.millis(0..200);
    std::thread::sleep(rest.saturating_sub(demoted.elapsed()));
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    stage.is_night.store(false, Ordering::Relaxed);
}

/// What a replica logs in with: nothing, or what is refused.
fn log_in_as(sentinels: &Sentinels, port: u16, user: &str) {
    let mut client = sentinels.server(port).client();
    for setting in ["masteruser", "masterauth"] {
        client.try_call(&["CONFIG", "SET", setting, user]).ok();
    }
}

fn promote_another(sentinels: &mut Sentinels, stage: &Stage, prng: &mut Prng) {
    let runtime = Handle::current();
    let master = runtime.block_on(sentinels.wait_until_all_follow_one());
    let ports = sentinels.servers().iter().map(RedisServer::port);
    let replicas: Vec<u16> = ports.filter(|port| *port != master).collect();
    until(stage, "all replicas are linked", || {
        replicas.iter().all(|port| sentinels.replication_shows(*port, "master_link_status:up"))
    });
    if prng.percent(75) {
        // From here on they hear of nothing.
        replicas.iter().for_each(|port| log_in_as(sentinels, *port, "nobody"));
        sentinels.server(master).cli(&["CLIENT", "KILL", "TYPE", "replica"]);
        use_on(stage, prng, "that no replica hears of");
    }
    let is_killed = prng.percent(40);
    if is_killed {
        sentinels.kill_master();
    }
    stage.recorder.note(format!("promotion begins, the master is killed: {is_killed}"));
    runtime.block_on(sentinels.failover());
    let promoted = runtime.block_on(sentinels.wait_for_master_other_than(master));
    replicas.iter().for_each(|port| log_in_as(sentinels, *port, ""));
    if is_killed {
        sentinels.restart(master);
        // The Sentinels would tell it later.
        follow(sentinels.server(master), sentinels.server(promoted));
    }
}
