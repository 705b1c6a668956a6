//! Checks before anything is timed: each side does its work, and both send the same commands, but for the seals of one
//! side and its script for a fenced lock.

use leasehold::{ErrorKind, Fencing, LockRequest, Locker};
use leasehold_resp::Frame;

use super::ours;
use super::runtimes::{Shape, Stage};
use super::wire::{Bare, Kind, Pen, Scripts};
use crate::support::{Client, RedisServer};

const NAME: &str = "check:42";
const FENCE: &str = "{check:42}:fence";
const END: &str = "end of the check";

pub fn run(server: &RedisServer, scripts: &Scripts) {
    let stage = Stage::new(Shape::CurrentThread);
    let (url, mut client) = (server.url(), server.client());
    let locker = stage.run(async move {
        let connect = || async { Locker::connect(&url).await.expect("the server is up") };
        let refused = connect().await;
        assert_exclusive(&mut client, || refused.try_lock(NAME).unfenced()).await;
        assert_exclusive(&mut client, || refused.try_lock(NAME)).await;
        // Another one: a locker that has met a holder asks in the queue next.
        let locker = connect().await;
        assert_fenced(&mut client, &locker).await;
        locker
    });
    for kind in Kind::ALL {
        let (address, pen) = (server.address(), Pen::new(scripts));
        let mut bare = stage.run(async move { Bare::connect(address, pen, NAME).await });
        let locker = locker.clone();
        let ours = commands_of(server, || {
            stage.run(async move { ours::pair(&locker, kind, NAME).await });
        });
        let theirs = commands_of(server, || stage.run(async move { bare.pair().await }));
        // One command takes the lock and one gives it back: of a fenced one, both are scripts.
        assert_eq!(ours.len(), theirs.len(), "{ours:?}");
        let taken = match kind {
            Kind::Fenced => ours[0][..2] == ["EVALSHA", scripts.acquire.as_str()],
            Kind::Unfenced => ours.first() == theirs.first(),
        };
        assert!(taken, "{ours:?}");
        assert_eq!(ours[1][..2], theirs[1][..2]);
    }
}

async fn assert_exclusive<F: Fencing>(client: &mut Client, ask: impl Fn() -> LockRequest<F>) {
    let guard = ask().await.expect("it is free");
    assert_eq!(mask(&client.text(&["GET", NAME])), "OWNER", "the key holds the owner");
    assert!(ask().await.is_err_and(|error| error.kind() == ErrorKind::Contended));
    guard.release().await.expect("it is held");
    assert_eq!(client.text(&["GET", NAME]), "", "a released lock is free");
}

async fn assert_fenced(client: &mut Client, locker: &Locker) {
    let guard = locker.try_lock(NAME).await.expect("it is free");
    assert_eq!(client.text(&["GET", FENCE]), guard.fence().to_string());
    guard.release().await.expect("it is held");
}

/// What clients sent during `act`, less what two leases of one lock cannot have in common.
fn commands_of(server: &RedisServer, act: impl FnOnce()) -> Vec<Vec<String>> {
    let mut monitor = server.client();
    monitor.call(&["MONITOR"]);
    act();
    server.cli(&["ECHO", END]);
    let mut commands = Vec::new();
    loop {
        let Frame::Simple(line) = monitor.next_frame().expect("the server goes on") else {
            panic!("MONITOR prints lines");
        };
        // 1763694000.123456 [0 127.0.0.1:50000] "SET" "name" ...
        let line = String::from_utf8_lossy(&line).into_owned();
        let (head, command) = line.split_once("] ").expect("the client stands in brackets");
        if command.contains(END) {
            return commands;
        }
        // A seal is an ECHO that Leasehold alone puts behind a SET: the floor does without.
        if !head.ends_with(" lua") && !command.starts_with("\"ECHO\"") {
            commands.push(command.split(' ').map(mask).collect());
        }
    }
}

fn mask(word: &str) -> String {
    let text = word.trim_matches('"');
    // Behind the id stands the format of the value.
    let text = text.strip_suffix('~').unwrap_or(text);
    let digits = |radix| text.chars().all(|digit| digit.is_digit(radix));
    match text.len() {
        32 if digits(16) => "OWNER".to_owned(),
        16 if digits(10) => "TOKEN".to_owned(),
        _ => text.to_owned(),
    }
}
