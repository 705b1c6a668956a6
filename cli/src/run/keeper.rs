//! The process that has the lease: it takes it, keeps it, and ends the command should it not hold.
//!
//! It is in a session of its own, so that nothing at a terminal can stop it.

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

/// The command is asked to end while this part of the TTL is left of its lease, and ended while
/// that is left. The front ends all while the last part is left, if we do not answer.
const TERM_AT: u32 = 3;
const KILL_AT: u32 = 10;
const FRONT_KILLS_AT: u32 = 20;
/// A lease that is lost before its time may be another's by now: the command gets no longer. Nor
/// does what it leaves behind.
pub const GRACE_MAX: Duration = Duration::from_secs(2);
/// How long the servers are given to say that the lock is free: the release is sent until they do. Longer than the TTL
/// it cannot be taken.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// The same where a quorum has said so, or the lock was not had: a server may have granted it too late.
const FAREWELL: Duration = Duration::from_millis(500);
/// The front gives us this time to write a ticket, and to release the lock where that fails.
const TICKET_MAX: Duration = Duration::from_secs(10);
/// How long the servers are given to say why the lease cannot be renewed.
const WHY_MAX: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// Comes back when the command, what it left behind and the lease are over.
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
    // It stays in the caller's job, which we leave.
    let command = Prepared::start(input)?;
    tree.lead_by(command.id);
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
    // One that does not wait has an attempt to connect, which has its time.
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
    // What was taken when the front ended is given back, and whatever a failure left.
    let left = locker.shutdown(farewell).await.unreleased;
    // One lock may be owed by several attempts.
    let left: BTreeMap<String, String> = left.into_iter().map(|it| (it.name, it.reason)).collect();
    for (name, why) in left.iter().filter(|_| !is_silent(&outcome, run)) {
        let name = plain(name.as_bytes());
        complain(&format!("{name}: the lock may stay taken until its TTL is over: {why}"));
    }
    outcome
}

/// Whether nothing is said of what it came to.
fn is_silent(outcome: &Result<End, Failure>, run: &Run) -> bool {
    run.quiet && matches!(outcome, Err(Failure::Conflict(..)))
}

/// What comes of `work`, unless the front ends first.
async fn unless_closed<T>(front: &mut Channel, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = async { while front.hear().await.is_some() {} } => None,
        outcome = work => Some(outcome),
    }
}

/// Connects, to servers too that do not serve yet: until the end of -w, or without it for one TTL.
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

/// The lease, and what it is for.
struct Held<'a> {
    locker: &'a Locker,
    guard: Guard,
    /// Of the lock's key.
    prefix: &'a [u8],
    run: &'a Run,
    /// When it has been held for as long as it may be.
    ends_at: Option<Duration>,
}

impl Held<'_> {
    /// Which of the locks that would do it is.
    fn number(&self) -> usize {
        let held = self.guard.name().strip_prefix(self.prefix);
        let is_it = |name: &OsString| held == Some(name.as_bytes());
        self.run.names().position(is_it).unwrap_or(0)
    }
}

/// Has the command run while the lease holds, and gives it back, or to a ticket; and for how long that is to be tried
/// again.
async fn hold(
    held: Held<'_>,
    out: Option<ticket::Out>,
    front: &mut Channel,
    tree: &mut Tree,
    command: Prepared,
    farewell: &mut Duration,
) -> Result<End, Failure> {
    let guard = &held.guard;
    // What is said at the terminal may have kept us for longer than the lease.
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
        // What comes of it is the outcome: the next holder, by the ticket, needs to know.
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
        // The command has ended: nothing of it is undone by this.
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

/// In milliseconds since 1970, for programs that have no other clock in common with us.
#[expect(clippy::disallowed_methods, reason = "it is told, and nothing is decided by it")]
fn deadline_ms(remaining: Duration) -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + remaining).as_millis()
}

/// Sees to it that nothing of the command is left when its lease ends, or is given back.
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
    // Without its end it was not waited for: nothing that takes a success follows.
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
    // The command itself ended under the lock; but what it left behind would not.
    match guard.loss() {
        Some(loss) => Err(Failure::Lost(loss)),
        None => Ok(ended),
    }
}

/// Ends all of a command whose lease is lost, or is about to be.
async fn lose(
    held @ Held { locker, guard, run, ends_at, .. }: &Held<'_>,
    kill_in: Duration,
    front: &mut Channel,
    tree: &mut Tree,
) -> Failure {
    let killed_at = now() + kill_in.max(WHY_MAX) + run.ttl / FRONT_KILLS_AT;
    let left = || killed_at.saturating_sub(now());
    // One that is renewed comes near its end only at its limit.
    let nearly = now() + run.ttl / TERM_AT + SECOND;
    let reason =
        if ends_at.is_some_and(|end| end <= nearly) { Loss::HeldLongest } else { Loss::Expired };
    let name = run.names().nth(held.number()).unwrap_or(&run.name);
    // The command gets its time, and meanwhile the servers say why the lease cannot be renewed.
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

/// What is wrong with the servers, if anything is: one that answers may refuse what changes the lease.
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

/// Waits until the lease is lost, or is near its end since it cannot be renewed; how long the
/// command has from then on.
async fn danger(guard: &Guard, ttl: Duration) -> Duration {
    loop {
        let left = guard.remaining();
        let Some(spare) = left.checked_sub(ttl / TERM_AT) else {
            // None is left of one that is lost, which may have been long before its end.
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
