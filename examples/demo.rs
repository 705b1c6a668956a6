//! What a lock does, step by step, on a real server; the program checks each step.
//!
//! `scripts/demo.sh` runs it on a server of its own. By hand, on a server where you may use the locks `demo:*`: `cargo
//! run --example demo [redis://host:port]`, or with LEASEHOLD_URL.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "an example may read the clock")]

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leasehold::{Error, ErrorKind, FencingToken, Guard, Locker};
use tokio::time::sleep;

const INVOICE: &str = "demo:invoice:42";
const REPORT: &str = "demo:report";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = url();
    let locker = Locker::connect(&url).await?;

    let first = take(&locker).await?;
    be_refused(&locker).await;
    let newest = take_again(&locker, first).await?;
    wait_for_the_holder(&locker, newest).await?;
    outlive_a_lease(&locker).await?;
    lose_the_key(&locker, &url).await?;
    be_overtaken(&locker).await?;
    leave_nothing(&locker).await?;

    println!("\nEvery step turned out as it says.");
    Ok(())
}

fn step(number: u32, what: &str) {
    println!("\n{number}. {what}");
}

fn say(what: impl AsRef<str>) {
    println!("   {}", what.as_ref());
}

async fn take(locker: &Locker) -> Result<Guard, Error> {
    step(1, "Take a lock, and say who we are");
    let guard = locker.lock(INVOICE).label("billing").await?;
    assert!(!guard.is_lost());
    assert!(guard.remaining() > Duration::from_secs(9), "the lease is of 10 s by default");
    say(format!("{INVOICE} is ours for another {:.1?}", guard.remaining()));
    say(format!("its fencing token is {}", guard.fence()));
    Ok(guard)
}

async fn be_refused(locker: &Locker) {
    step(2, "Ask for it a second time, without waiting: refused, and told by whom");
    let error = locker.try_lock(INVOICE).await.expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::Contended);
    let holder = error.report().holder().expect("the server names the holder");
    assert_eq!(holder.label.as_deref(), Some("billing"));
    let remaining = holder.remaining.expect("a lease of ours has an end");
    assert!(remaining > Duration::from_secs(8) && remaining <= Duration::from_secs(10));
    say(format!("the error says: {error}"));
}

async fn take_again(locker: &Locker, first: Guard) -> Result<Guard, Error> {
    step(3, "Give it back and take it again: the next lease has a larger token");
    let before = first.fence();
    first.release().await?;
    let second = locker.lock(INVOICE).label("billing").await?;
    assert!(second.fence() > before);
    say(format!("{before}, then {}", second.fence()));
    Ok(second)
}

async fn wait_for_the_holder(locker: &Locker, holder: Guard) -> Result<(), Error> {
    step(4, "Wait for a lock that another holds: ours as soon as it is released");
    let holding = Duration::from_millis(300);
    let before = holder.fence();
    let began = Instant::now();
    let waiter = tokio::spawn({
        let request = locker.lock(INVOICE).wait_at_most(Duration::from_secs(5)).label("refunds");
        request.into_future()
    });
    sleep(holding).await;
    assert!(!waiter.is_finished(), "nobody gets a lock that is held");
    holder.release().await?;
    let guard = waiter.await.expect("the waiter does not panic")?;
    let waited = began.elapsed();
    assert!(waited >= holding && waited < Duration::from_secs(5));
    assert!(guard.fence() > before);
    say(format!("held for {holding:?}; the waiter had it after {waited:.0?}"));
    guard.release().await
}

async fn outlive_a_lease(locker: &Locker) -> Result<(), Error> {
    step(5, "Outlive a lease: the guard knows by its own clock, without asking anybody");
    let ttl = Duration::from_millis(200);
    let guard = locker.lock(INVOICE).ttl(ttl).no_renewal().await?;
    assert!(!guard.is_lost());
    sleep(ttl + Duration::from_millis(50)).await;
    assert!(guard.is_lost());
    assert_eq!(guard.remaining(), Duration::ZERO);
    say(format!("a lease of {ttl:?}, after a nap: is_lost() is true"));
    let error = guard.release().await.expect_err("a late release says that it is late");
    assert_eq!(error.kind(), ErrorKind::Lost);
    say(format!("release says: {error}"));
    Ok(())
}

async fn lose_the_key(locker: &Locker, url: &str) -> Result<(), Box<dyn std::error::Error>> {
    step(6, "Have an administrator delete the key: the server tells its holder");
    let guard = locker.lock(INVOICE).await?;
    let work = async {
        sleep(Duration::from_millis(300)).await;
        let deleted = administrator(url, &format!("DEL {INVOICE}"));
        assert!(deleted.is_ok_and(|reply| reply == ":1"));
        std::future::pending::<()>().await;
    };
    let error = guard.run(work).await.expect_err("its key is gone");
    assert!(error.kind() == ErrorKind::Lost && guard.is_lost());
    say(format!("DEL {INVOICE}: the work is dropped, because {error}"));
    Ok(())
}

/// What a lock protects. It takes no lock and asks no clock: the largest token it has seen is
/// enough to keep out a late holder.
#[derive(Default)]
struct Ledger {
    largest_seen: Option<FencingToken>,
    entries: Vec<&'static str>,
}

impl Ledger {
    /// What is written so far. Reading shows the token too: else a late holder could still write between this
    /// read and what its reader writes.
    fn read(&mut self, token: FencingToken) -> Result<&[&'static str], FencingToken> {
        self.raise(token)?;
        Ok(&self.entries)
    }

    fn write(&mut self, token: FencingToken, entry: &'static str) -> Result<(), FencingToken> {
        self.raise(token)?;
        self.entries.push(entry);
        Ok(())
    }

    fn raise(&mut self, token: FencingToken) -> Result<(), FencingToken> {
        match self.largest_seen.filter(|&seen| token < seen) {
            Some(seen) => Err(seen),
            None => {
                self.largest_seen = Some(token);
                Ok(())
            }
        }
    }
}

async fn be_overtaken(locker: &Locker) -> Result<(), Error> {
    step(7, "Be paused past the end of a lease: the resource refuses the late write");
    let mut ledger = Ledger::default();
    let ttl = Duration::from_millis(150);
    let paused = locker.lock(REPORT).ttl(ttl).label("the paused one").no_renewal().await?;
    ledger.read(paused.fence()).expect("its token is the newest");
    sleep(ttl).await;
    let other = locker.lock(REPORT).label("the other one").await?;
    ledger.read(other.fence()).expect("its token is the newest");
    say(format!("the other one reads under token {}", other.fence()));
    // The paused one goes on as if nothing had happened, and does not ask whether it is lost.
    let seen = ledger
        .write(paused.fence(), "by the paused one")
        .expect_err("its token is older than the one seen");
    assert_eq!(seen, other.fence());
    say(format!("the paused one comes with token {}: refused", paused.fence()));
    ledger.write(other.fence(), "by the other one").expect("its token is the newest");
    assert_eq!(ledger.entries, ["by the other one"]);
    say("the other one writes what it made of its read");
    assert!(paused.release().await.is_err_and(|error| error.kind() == ErrorKind::Lost));
    assert!(!other.is_lost(), "and its late release did not touch the other's lock");
    other.release().await
}

async fn leave_nothing(locker: &Locker) -> Result<(), Error> {
    step(8, "Release: anybody can have it now");
    for name in [INVOICE, REPORT] {
        let guard = locker.try_lock(name).await?;
        say(format!("{name}: free, and free again"));
        guard.release().await?;
    }
    Ok(())
}

/// One command on a connection of its own, by a party that does not know of locks; the first line
/// of the reply.
fn administrator(url: &str, command: &str) -> io::Result<String> {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let mut stream = match address.contains(':') {
        true => TcpStream::connect(address)?,
        false => TcpStream::connect((address, 6379))?,
    };
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply)?;
    Ok(reply.trim_end().to_owned())
}

fn url() -> String {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())
}
