//! Split votes: contenders that know nothing of one another request one lock of five servers.
//! Counted at the servers: the acquire script runs SET twice where it grants and PTTL once where
//! it refuses, so the statistics of commands tell votes and refusals apart.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold::Locker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use crate::support::{Fleet, RedisServer, ports};

const SERVERS: usize = 5;
const CONTENDERS: usize = 8;
const NAME: &str = "contended:42";
/// How long each holds the lock.
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];
/// Between a release and the next wish: else the contender that has just released is always first.
const REST: Duration = Duration::from_millis(5);
/// After a race: more than any command of it is under way for.
const SETTLING: Duration = Duration::from_millis(25);
/// At most this long are commands under way to a server, in whole milliseconds.
const WAY_MS_MAX: usize = 5;
const RACES_A_SECOND: u32 = 20;

/// What one server was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    acquires: u64,
    /// Acquires that it granted.
    votes: u64,
}

pub fn run(lasting: Duration) {
    let fleet = Fleet::start(SERVERS);
    let stage = Stage::new(Shape::Worker);
    println!(
        "\nSplit votes, {CONTENDERS} contenders, each as a process of its own, {SERVERS} servers"
    );
    let addresses: Vec<SocketAddr> = fleet.iter().map(RedisServer::address).collect();
    let near = stage.run(lockers(addresses.clone()));
    let far = stage.run(async move {
        let ways = (0..SERVERS).map(|server| long_way(server, addresses[server]));
        lockers(ways.collect()).await
    });

    println!("\nAll at once, until the first is granted:");
    let races = lasting.as_millis() as u32 * RACES_A_SECOND / 1000;
    race(&stage, &near, races, "over loopback");
    race(&stage, &far, races, "1 to 5 ms away");

    println!("\nOver and over; attempts: a grant, as the server that was asked most saw them;");
    println!("progress: of the rounds in which that server voted for one, how many were won");
    for (lockers, place) in [(near, "over loopback"), (far, "1 to 5 ms away")] {
        for hold in HOLDS {
            fleet.cli_all(&["CONFIG", "RESETSTAT"]);
            let started = Instant::now();
            let grants = stage.run(contend(lockers.clone(), hold, lasting));
            let seconds = started.elapsed().as_secs_f64();
            print(place, hold, &grants, seconds, &asked(&fleet));
        }
    }
}

/// One after another; each begins with another server.
async fn lockers(addresses: Vec<SocketAddr>) -> Vec<Locker> {
    let mut lockers = Vec::new();
    for contender in 0..CONTENDERS {
        let mut urls: Vec<_> =
            addresses.iter().map(|address| format!("redis://{address}")).collect();
        urls.rotate_left(contender % SERVERS);
        let builder = Locker::builder().nodes(urls).restart_quarantine(false);
        lockers.push(builder.connect().await.expect("the servers are up"));
    }
    lockers
}

/// A way to a server on which commands take so long, another time on each connection: so each
/// contender's questions reach the servers in another order.
fn long_way(server: usize, upstream: SocketAddr) -> SocketAddr {
    let (listener, address) = ports::listen_async();
    tokio::spawn(async move {
        for connection in 0.. {
            let (client, _) = listener.accept().await.expect("a listener goes on");
            let way_ms = 1 + (3 * connection + 2 * server + connection * server) % WAY_MS_MAX;
            tokio::spawn(carry(client, upstream, Duration::from_millis(way_ms as u64)));
        }
    });
    address
}

async fn carry(client: TcpStream, upstream: SocketAddr, way: Duration) {
    let upstream = TcpStream::connect(upstream).await.expect("the server is up");
    let (mut commands, mut to_client) = client.into_split();
    let (mut replies, mut to_server) = upstream.into_split();
    let (sender, mut chunks) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move { tokio::io::copy(&mut replies, &mut to_client).await });
    tokio::spawn(async move {
        while let Some((came_at, chunk)) = chunks.recv().await {
            tokio::time::sleep_until((came_at + way).into()).await;
            if to_server.write_all(&chunk).await.is_err() {
                break;
            }
        }
    });
    let mut chunk = vec![0; 4096];
    while let Ok(read @ 1..) = commands.read(&mut chunk).await {
        if sender.send((Instant::now(), chunk[..read].to_vec())).is_err() {
            break;
        }
    }
}

fn race(stage: &Stage, lockers: &[Locker], races: u32, place: &str) {
    let (mut alone, mut first) = (Samples::default(), Samples::default());
    for number in 0..races {
        let name = format!("race:{number}");
        let one = lockers[number as usize % CONTENDERS].clone();
        alone.push(stage.run(first_grant(vec![one], name.clone())));
        first.push(stage.run(first_grant(lockers.to_vec(), name)));
    }
    println!("{place:<15} {:>20.2} ms, one alone {:.2} ms", first.summary(), alone.summary(),);
}

/// How many milliseconds it takes until one of them is granted; the others give up then.
async fn first_grant(lockers: Vec<Locker>, name: String) -> f64 {
    let started = Instant::now();
    let mut contenders = JoinSet::new();
    for locker in lockers {
        let request = locker.lock(&name);
        contenders.spawn(async move { request.await.expect("the servers are well") });
    }
    let winner = contenders.join_next().await.expect("there are some");
    let took = started.elapsed().as_secs_f64() * 1e3;
    contenders.shutdown().await;
    winner.expect("a contender does not panic").release().await.expect("it is held");
    tokio::time::sleep(SETTLING).await;
    took
}

/// Returns how often each was granted the lock.
async fn contend(lockers: Vec<Locker>, hold: Duration, lasting: Duration) -> Vec<u64> {
    let until = Instant::now() + lasting;
    let contenders: Vec<_> = lockers
        .into_iter()
        .map(|locker| {
            tokio::spawn(async move {
                let mut grants = 0;
                while Instant::now() < until {
                    let guard = locker.lock(NAME).await.expect("the servers are well");
                    grants += 1;
                    if !hold.is_zero() {
                        tokio::time::sleep(hold).await;
                    }
                    guard.release().await.expect("it is held");
                    tokio::time::sleep(REST).await;
                }
                grants
            })
        })
        .collect();
    let mut grants = Vec::new();
    for contender in contenders {
        grants.push(contender.await.expect("a contender does not panic"));
    }
    grants
}

fn asked(fleet: &Fleet) -> Vec<Asked> {
    let statistics = fleet.cli_all(&["INFO", "commandstats"]);
    let counts = statistics.iter().map(|text| {
        let calls = |command: &str| -> u64 {
            let line = text.lines().find_map(|line| {
                line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(":calls=")
            });
            let number = line.and_then(|line| line.split(',').next());
            number.map_or(0, |number| number.parse().expect("a number of calls"))
        };
        let votes = calls("set") / 2;
        Asked { acquires: votes + calls("pttl"), votes }
    });
    counts.collect()
}

fn print(place: &str, hold: Duration, grants: &[u64], seconds: f64, asked: &[Asked]) {
    let total: u64 = grants.iter().sum();
    let a_grant = |count: u64| count as f64 / total as f64;
    let most = asked.iter().map(|asked| asked.acquires).max().unwrap_or(0);
    let all: u64 = asked.iter().map(|asked| asked.acquires).sum();
    let votes = asked.iter().map(|asked| asked.votes).max().unwrap_or(0);
    println!(
        "{place:<15} held for {:>2} ms: {:>5.0} grants/s, attempts {:>5.2}, on average at a \
         server {:>5.2}, progress {:>3.0} %, most and fewest of one contender {} and {}",
        hold.as_millis(),
        total as f64 / seconds,
        a_grant(most),
        a_grant(all) / SERVERS as f64,
        100.0 / a_grant(votes),
        grants.iter().max().unwrap_or(&0),
        grants.iter().min().unwrap_or(&0),
    );
}
