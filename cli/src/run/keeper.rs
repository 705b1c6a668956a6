//! The process that has the lease: acquires it, keeps it, and ends the command if it cannot.
//!
//! It is in a session of its own, so that a terminal cannot stop it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::inspect::ServerFailure;
use leasehold::{Guard, Locker, Loss};
use nix::sys::signal::Signal;
use nix::unistd::setsid;
use rustix::process::Pid;
use rustix::stdio::dup2_stdin;
use tokio::time::{sleep, timeout};

use super::channel::{Channel, ToFront, ToKeeper, given};
use super::command::Prepared;
use super::taking::{adopt, label, take};
use super::ticket;
use super::tree::{Tree, send};
use crate::args::Run;
use crate::exit::{End, Failure};
use crate::servers::{PIPES_WITHIN, Servers};
use crate::times::now;
use crate::waits::{self, CONNECT_MIN, Until};
use crate::words::{complain, plain};

pub const NAME: &str = "lease-keeper";

/// The command gets TERM when the TTL divided by this is left of its lease, and KILL at the next. At the last the front
/// ends all, if the keeper does not answer.
const TERM_AT: u32 = 3;
const KILL_AT: u32 = 10;
const FRONT_KILLS_AT: u32 = 20;
/// Maximum time for the command, and for what it leaves behind, after a lease was lost early: another client may have
/// the lock.
pub const GRACE_MAX: Duration = Duration::from_secs(2);
/// Maximum time for repeated releases, until the servers confirm one; at most the TTL, after which the lock is free
/// anyway.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// The same after a confirmed release, or without the lock: a server may have granted it too late.
const FAREWELL: Duration = Duration::from_millis(500);
/// The time for writing a ticket, or for releasing the lock if that fails; after it the front ends all.
const TICKET_MAX: Duration = Duration::from_secs(10);
/// Maximum time to ask the servers why the lease cannot be renewed.
const WHY_MAX: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// Returns when the command, the processes that it left and the lease have ended.
pub async fn keep(servers: &Servers, run: &Run) -> Result<End, Failure> {
    let begun = begin();
    let (mut front, mut tree, command) = begun.map_err(Failure::ourselves)?;
    let outcome = serve(&mut front, &mut tree, command, servers, run).await;
    if let Some(failure) = outcome.as_ref().err().filter(|_| !is_silent(&outcome, run)) {
        complain(&failure.to_string());
    }
    let end = outcome.unwrap_or_else(|failure| End::Code(failure.code()));
    front.say(ToFront::Ended(end));
    Ok(end)
}

fn begin() -> std::io::Result<(Channel, Tree, Prepared)> {
    let (front, input) = given()?;
    let mut tree = Tree::adopt()?;
    // It stays in the caller's job, which the keeper leaves.
    let command = Prepared::start(&input)?;
    tree.lead_by(command.id);
    // A password or a ticket may come by the caller's input. The socket that was there stays open until this process
    // has ended, as the front waits for that.
    std::mem::forget(front.try_clone()?);
    dup2_stdin(&input)?;
    setsid()?;
    Ok((Channel::new(front)?, tree, command))
}

async fn serve(
    front: &mut Channel,
    tree: &mut Tree,
    command: Prepared,
    servers: &Servers,
    run: &Run,
) -> Result<End, Failure> {
    let until = Until::after(run.wait);
    // Without a wait one attempt to connect has its whole timeout.
    let read_by = if run.waits() { until } else { Until::after(Some(servers.connect_timeout())) };
    let Some(out) = unless_closed(front, ticket::Out::open(run, read_by)).await else {
        return Ok(End::Code(0));
    };
    let out = out?;
    let Some(connected) = unless_closed(front, connect(servers, run, until)).await else {
        return Ok(End::Code(0));
    };
    let locker = connected?;
    let taking = async {
        match &run.adopt {
            None => take(&locker, run, until).await,
            Some(file) => adopt(&locker, servers, run, file).await,
        }
    };
    let mut farewell = FAREWELL;
    let outcome = match unless_closed(front, taking).await {
        Some(Ok(guard)) => {
            let ends_at = run.hold_at_most.map(|limit| now().saturating_add(limit));
            let prefix = servers.key_prefix.as_bytes();
            let held = Held { locker: &locker, guard, prefix, run, ends_at };
            hold(held, out, front, tree, command, &mut farewell).await
        }
        Some(Err(failure)) => Err(failure),
        None => Ok(End::Code(0)),
    };
    // Releases what was acquired when the front ended, or was left by a failure.
    let left = locker.shutdown(farewell).await.unreleased;
    // Several attempts may owe a release of one lock.
    let left: BTreeMap<String, String> = left.into_iter().map(|it| (it.name, it.reason)).collect();
    for (name, why) in left.iter().filter(|_| !is_silent(&outcome, run)) {
        let name = plain(name.as_bytes());
        complain(&format!("{name}: the lock may stay taken until its TTL is over: {why}"));
    }
    outcome
}

/// Whether -q silences this outcome.
fn is_silent(outcome: &Result<End, Failure>, run: &Run) -> bool {
    run.quiet && matches!(outcome, Err(Failure::Conflict(..)))
}

/// The output of `work`, unless the front ends first.
async fn unless_closed<T>(front: &mut Channel, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = async { while front.hear().await.is_some() {} } => None,
        outcome = work => Some(outcome),
    }
}

/// Connects, waiting for servers that do not serve yet: until the end of -w, or without it for one TTL.
async fn connect(servers: &Servers, run: &Run, until: Until) -> Result<Locker, Failure> {
    let pipes_within = match run.waits() {
        true => until.left().map(|left| left.max(CONNECT_MIN)),
        false => Some(PIPES_WITHIN),
    };
    let until = match run.wait {
        Some(_) => until,
        None => Until::after(Some(if run.waits() { run.ttl } else { Duration::ZERO })),
    };
    waits::connect(until, servers.connect_timeout(), run.quiet, async |within| {
        let builder = servers.builder_for(run.ttl, run.lock_delay, pipes_within).await?;
        let builder = builder.label(label(run)).connect_timeout(within);
        Ok(builder.connect().await?)
    })
    .await
}

/// The lease, and its context.
struct Held<'a> {
    locker: &'a Locker,
    guard: Guard,
    /// The prefix of the lock's key.
    prefix: &'a [u8],
    run: &'a Run,
    /// When --hold-at-most ends the lease.
    ends_at: Option<Duration>,
}

impl Held<'_> {
    /// The index of the lock among those that are enough.
    fn number(&self) -> usize {
        let held = self.guard.name().strip_prefix(self.prefix);
        let is_it = |name: &OsString| held == Some(name.as_bytes());
        self.run.names().position(is_it).unwrap_or(0)
    }
}

/// Runs the command while the lease holds, then releases the lock, or leaves it to a ticket. Sets how long a release is
/// repeated.
async fn hold(
    held: Held<'_>,
    out: Option<ticket::Out>,
    front: &mut Channel,
    tree: &mut Tree,
    command: Prepared,
    farewell: &mut Duration,
) -> Result<End, Failure> {
    let guard = &held.guard;
    // Printing to the terminal may have taken longer than the lease.
    if let Some(loss) = guard.loss() {
        return Err(Failure::Lost(loss));
    }
    front.say(ToFront::Held);
    let id = command.id;
    let deadline = deadline_ms(guard.remaining());
    command.go(guard.fence(), deadline, held.number()).map_err(Failure::ourselves)?;
    let end = attend(&held, front, tree, id).await?;
    *farewell = RELEASE_MAX.min(held.run.ttl);
    if let Some(out) = out.filter(|_| end == End::Code(0)) {
        // A failed ticket is the outcome, because the next holder needs it.
        let mut written = pin!(out.write(held.locker, held.guard));
        tokio::select! {
            biased;
            written = &mut written => written,
            () = answer(front, || TICKET_MAX, None) => written.await,
        }?;
        *farewell = FAREWELL;
        return Ok(end);
    }
    front.say(ToFront::Ended(end));
    match held.guard.release().await {
        // The command has ended, so a release without confirmation is no failure.
        Err(error) if error.loss().is_none() => {
            complain(&format!("releasing the lock again: {error}"));
            return Ok(end);
        }
        released => {
            *farewell = FAREWELL;
            released?;
        }
    }
    Ok(end)
}

/// In milliseconds since 1970, the only clock that other programs share.
#[expect(clippy::disallowed_methods, reason = "it is told, and nothing is decided by it")]
fn deadline_ms(remaining: Duration) -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + remaining).as_millis()
}

/// Waits for the command's end, and leaves none of its processes when the lease ends or is released.
async fn attend(
    held: &Held<'_>,
    front: &mut Channel,
    tree: &mut Tree,
    command: Pid,
) -> Result<End, Failure> {
    let Held { guard, run, .. } = held;
    let ttl = run.span();
    let mut danger = pin!(danger(guard, ttl));
    let left = || guard.remaining().saturating_sub(ttl / FRONT_KILLS_AT);
    let end = tokio::select! {
        biased;
        kill_in = &mut danger => return Err(lose(held, kill_in, front, tree).await),
        () = answer(front, left, Some(command)) => None,
        end = tree.led() => Some(end),
    };
    // Without an end the front is gone: TERM, so that the run does not count as a success.
    let ended = end.unwrap_or(Signal::SIGTERM.into());
    if run.close && end.is_some() || !tree.is_left() {
        return Ok(ended);
    }
    let ending = async {
        match end {
            Some(_) => tree.end_what_is_left(GRACE_MAX).await,
            None => tree.end(GRACE_MAX).await,
        }
    };
    let kill_in = tokio::select! {
        biased;
        kill_in = &mut danger => Some(kill_in),
        () = answer(front, left, None), if end.is_some() => Some(Duration::ZERO),
        () = ending => None,
    };
    if kill_in.is_some() {
        tree.kill().await;
    }
    // The command ended under the lock, but processes that it left did not.
    match guard.loss() {
        Some(loss) => Err(Failure::Lost(loss)),
        None => Ok(ended),
    }
}

/// Ends all processes of a command whose lease is lost, or about to be.
async fn lose(
    held @ Held { locker, guard, run, ends_at, .. }: &Held<'_>,
    kill_in: Duration,
    front: &mut Channel,
    tree: &mut Tree,
) -> Failure {
    let killed_at = now() + kill_in.max(WHY_MAX) + run.ttl / FRONT_KILLS_AT;
    let left = || killed_at.saturating_sub(now());
    // A lease that is renewed comes near its end only by --hold-at-most.
    let nearly = now() + run.ttl / TERM_AT + SECOND;
    let reason =
        if ends_at.is_some_and(|end| end <= nearly) { Loss::HeldLongest } else { Loss::Expired };
    let name = run.names().nth(held.number()).unwrap_or(&run.name);
    // While the command has its time, asks the servers why the lease cannot be renewed.
    let asked = timeout(WHY_MAX, why(locker, guard, name));
    let ended = async { tokio::join!(tree.end(kill_in), asked).1.ok().flatten() };
    let why = tokio::select! {
        biased;
        () = answer(front, left, None) => None,
        why = ended => why,
    };
    tree.kill().await;
    match (guard.loss().unwrap_or(reason), why) {
        (Loss::Expired | Loss::NoQuorum, Some(why)) => Failure::NotRenewed(why),
        (loss, _) => Failure::Lost(loss),
    }
}

/// The servers' failures, if any; also that of an extension, which servers may refuse although they answer.
async fn why(locker: &Locker, guard: &Guard, name: &OsStr) -> Option<String> {
    let view = match locker.inspect(name.as_bytes()).await {
        Ok(view) => view,
        Err(error) => return Some(error.to_string()),
    };
    let one = |failure: &ServerFailure| format!("{}: {}", failure.server, failure.reason);
    let all: Vec<String> = view.failures.iter().map(one).collect();
    if !all.is_empty() {
        return Some(all.join("; "));
    }
    match guard.extend().await {
        Ok(()) => Some("the servers serve again".to_owned()),
        Err(error) => error.loss().is_none().then(|| error.to_string()),
    }
}

/// Answers the front until it ends, and passes its signals on.
async fn answer(front: &mut Channel, left: impl Fn() -> Duration, command: Option<Pid>) {
    while let Some(line) = front.hear().await {
        match (ToKeeper::parse(&line), command) {
            (Some(ToKeeper::Ask), _) => front.say(ToFront::Left(left())),
            (Some(ToKeeper::Pass(number)), Some(command)) => {
                if let Ok(signal) = Signal::try_from(number) {
                    send(command, signal);
                }
            }
            _ => {}
        }
    }
}

/// Waits until the lease is lost, or near its end without a renewal; returns how long the command still has.
async fn danger(guard: &Guard, ttl: Duration) -> Duration {
    loop {
        let left = guard.remaining();
        let Some(spare) = left.checked_sub(ttl / TERM_AT) else {
            // A lost lease has no time left, however early it was lost.
            let is_lost = left.is_zero();
            return if is_lost {
                GRACE_MAX.min(ttl / TERM_AT)
            } else {
                left.saturating_sub(ttl / KILL_AT)
            };
        };
        tokio::select! {
            _ = guard.lost() => {}
            () = sleep(spare + Duration::from_millis(1)) => {}
        }
    }
}
