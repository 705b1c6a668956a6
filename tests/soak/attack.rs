//! One reply goes wrong, again and again, while many callers on one connection ask for locks that
//! another holds, and others take and give back their own: nobody is granted what the server refuses
//! (safety rule 13).
//!
//! Some ten thousand attempts are a test; `scripts/attack.sh ATTEMPTS` makes more, as
//! `LEASEHOLD_ATTACK_ATTEMPTS` says.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Locker};
use leasehold_testing::{FaultProxy, Harm, RedisServer, soon};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Callers that ask for locks that another holds.
const CALLERS: usize = 64;
/// Callers that take and release locks of their own, so that grants are among the replies.
const OWNERS: usize = 16;
const HELD: usize = 8;
const ATTEMPTS_DEFAULT: u64 = 10_000;
/// No more attempts than this between two faults, and fewer where each fault would not be injected once
/// else. A locker whose connections do not last waits longer and longer before the next one.
const ATTEMPTS_PER_FAULT_MAX: u64 = 2000;
/// Short, because a connection on which only pushes come lasts as long.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(250);

const HARMS: [Harm; 9] = [
    Harm::Lost,
    Harm::Stray(b"*0\r\n"),
    Harm::Stray(b"-ERR stray\r\n"),
    Harm::Stray(b"+OK\r\n"),
    Harm::Stray(b"_\r\n"),
    // As scripts on other connections say it.
    Harm::Stray(b":1234567890123456\r\n"),
    Harm::Stray(b"*3\r\n:1234567890123456\r\n$7\r\ngranted\r\n:1780000000000000\r\n"),
    Harm::Twice,
    Harm::OnlyPushes,
];

/// What came of attempts at locks that another holds, of one kind of callers.
#[derive(Default)]
struct Tally {
    faults: AtomicU64,
    is_over: AtomicBool,
    /// Those that were sent.
    attempts: AtomicU64,
    /// Granted, though another holds it.
    false_grants: AtomicU64,
    /// Of those that were in flight at a fault.
    unknown: AtomicU64,
    refused: AtomicU64,
    unsent: AtomicU64,
    /// They were told a stray error, which no proof was behind.
    misled: AtomicU64,
    /// They were told what no fault explains.
    unexplained: AtomicU64,
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::SeqCst);
}

impl Tally {
    fn note(&self, outcome: Result<(), Error>, began_after: u64) {
        let was_in_flight = get(&self.faults) > began_after;
        let is_unsent =
            |error: &Error| error.kind() == ErrorKind::Unavailable && !error.is_unknown();
        if !outcome.as_ref().is_err_and(is_unsent) {
            add(&self.attempts);
        }
        let count = match outcome {
            Ok(()) => &self.false_grants,
            Err(error) if error.kind() == ErrorKind::Contended && was_in_flight => &self.refused,
            Err(error) if error.kind() == ErrorKind::Contended => return,
            Err(error) if error.is_unknown() => &self.unknown,
            Err(error) if is_unsent(&error) => &self.unsent,
            Err(error) if error.to_string().contains("ERR stray") => &self.misled,
            Err(error) => {
                println!("unexplained: {error}");
                &self.unexplained
            }
        };
        add(count);
    }

    /// Asks for what another holds, until it is over.
    async fn ask(self: Arc<Self>, locker: Locker, caller: usize, is_fenced: bool) {
        let name = format!("held-{}", caller % HELD);
        while !self.is_over.load(Ordering::Relaxed) {
            let began_after = get(&self.faults);
            let outcome = if is_fenced {
                locker.try_lock(&name).await.map(drop)
            } else {
                locker.try_lock(&name).unfenced().await.map(drop)
            };
            self.note(outcome, began_after);
        }
    }

    /// Takes and gives back its own lock, until it is over. What it is granted it has.
    async fn own(self: Arc<Self>, locker: Locker, owner: usize, is_fenced: bool) {
        let name = format!("own-{owner}");
        while !self.is_over.load(Ordering::Relaxed) {
            let released = if is_fenced {
                let Ok(guard) = locker.try_lock(&name).await else { continue };
                guard.release().await
            } else {
                let Ok(guard) = locker.try_lock(&name).unfenced().await else { continue };
                guard.release().await
            };
            if released.is_err_and(|error| error.kind() == ErrorKind::Lost) {
                add(&self.false_grants);
            }
        }
    }
}

/// The callers that ask for a fencing token. All replies to them are of one kind, so that one that is out
/// of place shows by nothing else; neither kind is when both are on one connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Fenced,
    Unfenced,
    Mixed,
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fenced => "with tokens",
            Self::Unfenced => "without",
            Self::Mixed => "half with, half without",
        })
    }
}

impl Manner {
    const ALL: [Self; 3] = [Self::Fenced, Self::Unfenced, Self::Mixed];

    fn is_fenced(self, number: usize) -> bool {
        match self {
            Self::Fenced => true,
            Self::Unfenced => false,
            Self::Mixed => number % 2 == 0,
        }
    }
}

/// Harms one reply after the other, until the wished number of attempts was made after that.
async fn attack(server: &RedisServer, manner: Manner, wished: u64) -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    let proxy = FaultProxy::start(server.address());
    proxy.to_client().know_replies();
    let builder = Locker::builder().nodes([proxy.url()]).command_timeout(COMMAND_TIMEOUT);
    let locker = builder.connect().await.expect("the server is well");
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let is_fenced = manner.is_fenced(caller);
        callers.spawn(Arc::clone(&tally).ask(locker.clone(), caller, is_fenced));
    }
    for owner in 0..OWNERS {
        callers.spawn(Arc::clone(&tally).own(locker.clone(), owner, manner.is_fenced(owner)));
    }
    let until_made = |wished: u64| {
        let tally = Arc::clone(&tally);
        async move {
            while get(&tally.attempts) < wished {
                sleep(Duration::from_millis(1)).await;
            }
        }
    };
    soon("callers begin", until_made(1)).await;
    let per_fault = (wished / HARMS.len() as u64).clamp(1, ATTEMPTS_PER_FAULT_MAX);
    let first = get(&tally.attempts);
    for harm in HARMS.iter().cycle() {
        let (before, accepted) = (get(&tally.attempts), proxy.accepted());
        if before >= first + wished {
            break;
        }
        proxy.to_client().harm_next_reply(*harm);
        add(&tally.faults);
        let what = format!("{manner:?}: the connection is replaced after {harm:?}");
        soon(&what, proxy.until_accepted(accepted + 1)).await;
        soon("callers go on", until_made(before + per_fault)).await;
    }
    tally.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = soon("all callers end", callers.join_next()).await {
        ended.expect("no caller panics");
    }
    tally.attempts.fetch_sub(first, Ordering::SeqCst);
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_repeated_or_added_grant_nothing() {
    let wished = crate::setting("LEASEHOLD_ATTACK_ATTEMPTS").unwrap_or(ATTEMPTS_DEFAULT);
    let server = RedisServer::start();
    for number in 0..HELD {
        server.client().call(&["SET", &format!("held-{number}"), "another"]);
    }
    for manner in Manner::ALL {
        let tally = attack(&server, manner, wished.div_ceil(3)).await;
        println!(
            "| {manner} | {} | {} | {} | {} | {} | {} |",
            get(&tally.faults),
            get(&tally.attempts),
            get(&tally.false_grants),
            get(&tally.unknown),
            get(&tally.unsent),
            get(&tally.refused),
        );
        assert_eq!(get(&tally.false_grants), 0, "granted what another holds");
        assert_eq!((get(&tally.misled), get(&tally.unexplained)), (0, 0));
        assert!(get(&tally.unknown) > 0, "no fault met anybody");
    }
}
