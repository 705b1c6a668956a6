//! What a server is asked while it answers `BUSY`, because a script runs for seconds.

use std::time::Duration;

use leasehold::Locker;
use leasehold_resp::Frame;
use leasehold_testing::server::Builder;
use leasehold_testing::{Fleet, RedisServer, binary, eventually, soon};
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(3600);
/// How long a script runs, or longer on a busy machine.
const RUNS: Duration = Duration::from_secs(4);
/// Two of them in one line of their process.
const NAMES: [&str; 4] = ["a", "a", "b", "c"];

fn hurried() -> Builder {
    RedisServer::builder().arg("--lua-time-limit").arg("10")
}

async fn connect(urls: &[String]) -> Locker {
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(TTL);
    soon("a locker", builder.connect()).await.unwrap()
}

/// How many scripts a server has refused to run; nothing of one that does not count that.
fn refused(server: &RedisServer) -> Option<u64> {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let of = |name: &str| {
        let line = stats.lines().find(|line| line.starts_with(name))?;
        line.split_once("rejected_calls=")?.1.split(',').next()?.parse::<u64>().ok()
    };
    Some(of("cmdstat_evalsha:")? + of("cmdstat_eval:").unwrap_or(0))
}

fn begin_script(server: &RedisServer) -> JoinHandle<Frame> {
    let mut client = server.client();
    tokio::task::spawn_blocking(move || client.call(&["EVAL", "while true do end", "0"]))
}

/// Its locks are given back at once, so that the others have them.
fn request_all(locker: &Locker) -> impl Iterator<Item = JoinHandle<()>> {
    NAMES.into_iter().map(|name| {
        let request = locker.lock(name).into_future();
        tokio::spawn(async { request.await.unwrap().release().await.unwrap() })
    })
}

/// Requests of one process wait when these servers become busy, and others of another process begin to: each attempt asks
/// once, and may give back once what an answer that was not waited for would have left.
async fn wait_at(servers: &[&RedisServer]) {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let (holder, early, late) = (connect(&urls).await, connect(&urls).await, connect(&urls).await);
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        guards.push(soon("a lock", holder.lock(name).into_future()).await.unwrap());
    }
    if binary::lacks(refused(servers[0]).is_some(), "counts of what it refuses") {
        return;
    }
    let mut waiting: Vec<JoinHandle<()>> = request_all(&early).collect();
    eventually("they wait", || early.stats().waiting == 4).await;
    // It hears of hand-overs from here on, so that it asks for places in queues.
    let first = tokio::spawn(late.lock("a").into_future());
    eventually("it waits", || late.stats().waiting == 1).await;
    first.abort();
    let scripts: Vec<_> = servers.iter().map(|server| begin_script(server)).collect();
    let is_busy = |server: &&RedisServer| server.cli(&["PING"]).error().is_some();
    eventually("the scripts run", || servers.iter().all(is_busy)).await;
    waiting.extend(request_all(&late));
    tokio::time::sleep(RUNS).await;
    servers.iter().for_each(|server| assert_eq!(server.cli_text(&["SCRIPT", "KILL"]), "OK"));
    for script in scripts {
        soon("the script ends", script).await.unwrap();
    }
    let attempts = early.stats().attempts + late.stats().attempts;
    drop(guards);
    for request in waiting {
        soon("its turn", request).await.unwrap();
    }
    for server in servers {
        let refused = refused(server).unwrap();
        assert!((1..2 * attempts + 100).contains(&refused), "{refused} of {attempts} attempts");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_ask_a_busy_server_seldom() {
    let server = hurried().start();
    wait_at(&[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_ask_several_busy_servers_seldom() {
    let fleet = Fleet::start_as(3, &hurried());
    wait_at(&fleet.iter().collect::<Vec<_>>()).await;
}
