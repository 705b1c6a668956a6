//! A process that is stopped while a reply arrives: once it goes on, it reads the reply before it counts it as late.

#![allow(clippy::print_stdout, reason = "a process that is stopped tells its parent what it sees")]

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::Locker;
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually};

/// Set in the process that is to be stopped: the server's URL.
const CHILD: &str = "LEASEHOLD_TEST_CHILD";
/// So long that neither its end nor a renewal ever comes.
const LONG: Duration = Duration::from_secs(3600);
/// More than a busy machine needs to stop a process.
const TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_came_while_the_process_was_stopped_is_not_late() {
    let name = "stopped::what_came_while_the_process_was_stopped_is_not_late";
    is_released_behind_a_stop(name, release_when_told).await;
}

#[cfg(feature = "blocking")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_came_while_the_threads_were_stopped_is_not_late() {
    let name = "stopped::what_came_while_the_threads_were_stopped_is_not_late";
    is_released_behind_a_stop(name, release_by_threads).await;
}

/// The test of this name begins a process of its own, which releases its lock so. What that says is read by a thread that
/// does nothing else meanwhile: the proxy needs another.
async fn is_released_behind_a_stop(name: &str, release: fn(&str)) {
    if let Ok(url) = std::env::var(CHILD) {
        return std::thread::spawn(move || release(&url)).join().unwrap();
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, proxy.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    let holds = || server.cli_text(&["EXISTS", "a"]) == "1";
    eventually("it holds", holds).await;
    let (mut told, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = BufReader::new(said).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("it holds")));
    let delivered = proxy.to_client().delivered_bytes();
    proxy.to_client().set(Fault::Stall);
    writeln!(told, "release").unwrap();
    eventually("the server has released it", || !holds()).await;
    signal("-STOP");
    proxy.to_client().set(Fault::Pass);
    proxy.to_client().until_delivered(delivered + 1).await;
    tokio::time::sleep(TIMEOUT + TIMEOUT / 4).await;
    signal("-CONT");
    let outcome = said.find(|line| line.contains("the release: "));
    assert_eq!(outcome.as_deref(), Some("the release: Ok(())"));
    assert!(child.wait().unwrap().success());
}

fn release_when_told(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let builder = Locker::builder().node(url).ttl(LONG).command_timeout(TIMEOUT);
        builder.connect().await.unwrap().lock("a").await.unwrap()
    });
    println!("it holds");
    stdin().read_line(&mut String::new()).unwrap();
    println!("the release: {:?}", runtime.block_on(guard.release()));
}

#[cfg(feature = "blocking")]
fn release_by_threads(url: &str) {
    let builder = Locker::builder().node(url).ttl(LONG).command_timeout(TIMEOUT);
    let guard = builder.connect_blocking().unwrap().lock("a").wait().unwrap();
    println!("it holds");
    stdin().read_line(&mut String::new()).unwrap();
    println!("the release: {:?}", guard.release());
}
