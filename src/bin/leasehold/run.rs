//! `leasehold run`: a command under a lock.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Error, Guard, Locker, Loss};
use nix::sys::signal::Signal;
use nix::unistd::gethostname;
use tokio::time::{interval, sleep};

use crate::args::{Run, Servers};
use crate::exit::{Failure, by_signal};
use crate::group::{Group, code_of};
use crate::signals::Signals;
use crate::words::{Waiting, complain};

/// The command is asked to end while this part of the TTL is left of its lease, and ended while
/// that is left.
const TERM_AT: u32 = 3;
const KILL_AT: u32 = 10;
/// A lease that is lost before its time may be another's by now: the command gets no longer.
const GRACE_MAX: Duration = Duration::from_secs(2);
/// How long the servers are given to say that the lock is free.
const FAREWELL: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// Between two looks at whether a group has ended.
const LOOK: Duration = Duration::from_millis(20);

pub async fn run(servers: &Servers, run: Run) -> Result<u8, Failure> {
    let signals = Signals::catch();
    let mut signals = signals.map_err(|error| Failure::System("no signal can be caught", error))?;
    let label = run.label.clone().unwrap_or_else(own_label);
    let builder = servers.builder().ttl(run.ttl).label(label);
    let connected = interrupted(&mut signals, builder.connect()).await;
    let locker = match connected {
        Ok(connected) => connected?,
        Err(signal) => return Ok(by_signal(signal as i32)),
    };
    let outcome = match interrupted(&mut signals, take(&locker, &run)).await {
        Ok(Ok(guard)) => hold(guard, &run, &mut signals).await,
        Ok(Err(failure)) => Err(failure),
        Err(signal) => Ok(by_signal(signal as i32)),
    };
    // What was taken when a signal came is given back, and whatever a failure left.
    locker.shutdown(FAREWELL).await;
    outcome
}

/// Who we are, as others see it who wait.
pub fn own_label() -> String {
    format!("{}:{}", host(), std::process::id())
}

pub fn host() -> String {
    let host = gethostname().unwrap_or_else(|_| "host".into());
    host.to_string_lossy().into_owned()
}

/// What comes of `work`, or the signal that ended it first.
pub async fn interrupted<T>(
    signals: &mut Signals,
    work: impl Future<Output = T>,
) -> Result<T, Signal> {
    tokio::select! {
        biased;
        signal = signals.next_to_end_us() => Err(signal),
        outcome = work => Ok(outcome),
    }
}

/// Takes the lock, and says so if it has to be waited for.
async fn take(locker: &Locker, run: &Run) -> Result<Guard, Failure> {
    let name = run.name.as_bytes();
    let refused = match locker.try_lock(name).await {
        Err(error) if error.is_contended() && run.nonblock => {
            return Err(Failure::Conflict(error, run.conflict_exit_code));
        }
        Err(error) if error.is_contended() => error,
        // Servers can serve again before the wait is over.
        Err(error) if error.is_unavailable() && !run.nonblock => error,
        other => return Ok(other?),
    };
    let request = locker.lock(name);
    let request = match run.wait {
        Some(limit) => request.wait_at_most(limit),
        None => request,
    };
    let waiting = (!run.quiet).then(|| Waiting::begin(name, &refused));
    let mut lock = pin!(request.into_future());
    let mut second = interval(SECOND);
    for waited in 0.. {
        tokio::select! {
            taken = &mut lock => {
                drop(waiting);
                return taken.map_err(|error| conflict(error, run));
            }
            _ = second.tick() => {
                if let Some(waiting) = &waiting {
                    waiting.show(SECOND * waited);
                }
            }
        }
    }
    unreachable!("there is no end to counting")
}

fn conflict(error: Error, run: &Run) -> Failure {
    if error.is_timeout() || error.is_contended() {
        return Failure::Conflict(error, run.conflict_exit_code);
    }
    Failure::Lock(error)
}

/// Runs the command while the lease holds, and gives it back.
async fn hold(guard: Guard, run: &Run, signals: &mut Signals) -> Result<u8, Failure> {
    let shell_line = run.command.as_ref().map(|line| ["-c".into(), line.clone()]);
    let (program, arguments) = match (&shell_line, run.words.split_first()) {
        (None, Some((program, arguments))) => (&**program, arguments),
        (line, _) => (OsStr::new("/bin/sh"), line.as_ref().map_or(&[][..], |line| &line[..])),
    };
    let environment = [
        ("LEASEHOLD_NAME", run.name.clone()),
        ("LEASEHOLD_FENCE", OsString::from(guard.fence().to_string())),
        ("LEASEHOLD_DEADLINE_MS", OsString::from(deadline_ms(guard.remaining()).to_string())),
    ];
    let mut group = Group::start(program, arguments, environment)?;
    match keep(&guard, run.ttl, &mut group, signals).await? {
        End::OfItself(status) => {
            if let Err(error) = guard.release().await {
                // The command has ended: nothing of it is undone by this.
                complain(&error.to_string());
                if error.is_lost() {
                    return Err(Failure::Lock(error));
                }
            }
            Ok(code_of(status))
        }
        End::Ended(loss) => Err(Failure::Lost(loss)),
    }
}

/// In milliseconds since 1970, for programs that have no other clock in common with us.
#[expect(clippy::disallowed_methods, reason = "it is told, and nothing is decided by it")]
fn deadline_ms(remaining: Duration) -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + remaining).as_millis()
}

enum End {
    OfItself(ExitStatus),
    /// By us, because the lease was or would be lost.
    Ended(Loss),
}

/// Watches over the command: passes signals on to it, and ends it should the lease not hold.
async fn keep(
    guard: &Guard,
    ttl: Duration,
    group: &mut Group,
    signals: &mut Signals,
) -> Result<End, Failure> {
    let danger = danger(guard, ttl);
    let mut danger = pin!(danger);
    let kill_in = loop {
        tokio::select! {
            status = group.ended() => return Ok(End::OfItself(status?)),
            signal = signals.next() => match signal {
                Signal::SIGCHLD => group.share_a_stop(),
                signal => group.send(signal),
            },
            kill_in = &mut danger => break kill_in,
        }
    };
    complain("the lease cannot be kept: the command is ended");
    end(group, kill_in).await?;
    Ok(End::Ended(guard.loss().unwrap_or(Loss::Expired)))
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

/// Asks the whole group to end, and ends it when its time is up.
async fn end(group: &mut Group, kill_in: Duration) -> Result<(), Failure> {
    group.send(Signal::SIGTERM);
    // One that is stopped would not hear of it.
    group.send(Signal::SIGCONT);
    let ended = tokio::time::timeout(kill_in, async {
        let status = group.ended().await;
        while group.is_left() {
            sleep(LOOK).await;
        }
        status
    });
    if ended.await.is_err() {
        group.send(Signal::SIGKILL);
    }
    group.ended().await.map(drop)
}
