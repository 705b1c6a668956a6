//! Servers whose counters are set back, each in its way.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Event, Locker, Observer};
use leasehold_testing::{RedisServer, soon};

use super::caller::LONGEST;
use super::has_grace;
use super::issued::Stage;
use super::service::Service;
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
    /// The same in a Cluster, by itself or by `CLUSTER FAILOVER TAKEOVER`; with leases that outlive it, alone.
    Cluster,
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "snapshot" => Ok(Self::Snapshot),
            "replicaof" => Ok(Self::ReplicaOf),
            "sentinel" => Ok(Self::Sentinels),
            "cluster" => Ok(Self::Cluster),
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
            Self::Cluster => "failovers: in a Cluster",
        }
    }
}

pub(crate) enum Servers {
    Snapshot(RedisServer),
    /// The one with the clients, and the other.
    ReplicaOf(RedisServer, RedisServer),
    Service(Service),
}

/// Waits for what has no event, unless it is over because something has failed.
pub(crate) fn until(stage: &Stage, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !stage.is_over.load(Ordering::Relaxed) && !condition() {
        assert!(started.elapsed() < STEP, "still not true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn follow(replica: &RedisServer, master: &RedisServer) {
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
}

pub(crate) fn is_linked(replica: &RedisServer) -> bool {
    replica.cli_text(&["INFO", "replication"]).contains("master_link_status:up")
}

fn learning(process: usize, stage: Arc<Stage>) -> impl Observer {
    move |event: &Event<'_>| {
        if let Event::PrimaryChanged { server, .. } = event {
            let port = server.rsplit(':').next().and_then(|port| port.parse().ok());
            let learned = (process, port.expect("an address has a port"), stage.now());
            stage.course().learned.push(learned);
        }
    }
}

impl Servers {
    /// Blocks.
    pub(crate) fn start(kind: Kind) -> Self {
        let builder = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        match kind {
            Kind::Snapshot => Self::Snapshot(builder.start()),
            Kind::ReplicaOf => Self::ReplicaOf(builder.clone().start(), builder.start()),
            Kind::Sentinels => Self::Service(Service::sentinels()),
            Kind::Cluster => Self::Service(Service::cluster()),
        }
    }

    /// Of a process, which notes when it learns of a new primary.
    pub(crate) async fn locker(&self, process: usize, stage: &Arc<Stage>) -> Locker {
        let url = match self {
            Self::Snapshot(server) | Self::ReplicaOf(server, _) => server.url(),
            Self::Service(service) => service.url(),
        };
        let connecting = async {
            loop {
                let builder = Locker::builder().nodes([url.clone()]);
                let builder = builder.command_timeout(Duration::from_millis(500));
                let builder = match has_grace() {
                    true => builder
                        .ttl(LONGEST)
                        .failover_grace(true)
                        .observer(learning(process, Arc::clone(stage))),
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
    pub(crate) fn fail_over(
        &mut self,
        stage: &Arc<Stage>,
        prng: &mut Prng,
        probe: Option<&Locker>,
    ) {
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
            Self::Service(service) => service.fail_over(stage, prng, probe),
        }
        stage.recorder.note("failed over".to_owned());
        use_on(stage, prng, "after the failover");
    }
}

/// Until each kind of token was asked for and issued, and a moment longer.
pub(crate) fn use_on(stage: &Stage, prng: &mut Prng, when: &str) {
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
