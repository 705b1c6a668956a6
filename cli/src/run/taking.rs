//! How the keeper acquires the lock.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use leasehold::election::Leadership;
use leasehold::{Error, ErrorKind, Guard, LockRequest, Locker};
use nix::unistd::getppid;
use tokio::time::{interval, timeout};

use super::ticket;
use crate::args::Run;
use crate::exit::Failure;
use crate::servers::Servers;
use crate::waits::{Until, may_pass};
use crate::words::{Waiting, complain, label_of, plain};

const SECOND: Duration = Duration::from_secs(1);
/// Minimum limit of a wait; a shorter one would only try.
const LAST_TRY: Duration = Duration::from_millis(1);

/// The holder's label.
pub fn label(run: &Run) -> String {
    run.label.clone().unwrap_or_else(|| label_of(getppid()))
}

/// Acquires the lock, and prints a line if that takes a wait.
pub async fn take(locker: &Locker, run: &Run, until: Until) -> Result<Guard, Failure> {
    if run.steal {
        let guard = held(locker.try_lock(run.name.as_bytes()).steal(), run).await?;
        if let Some(from) = guard.report().taken_from().next() {
            let name = plain(guard.name());
            complain(&format!("{name}: the lock was taken from its holder, {from}"));
        }
        return Ok(guard);
    }
    // A run without a wait makes one try, with its whole timeout.
    let limit = until.left().filter(|left| !left.is_zero()).unwrap_or(Duration::MAX);
    let refused = match timeout(limit, ask(locker, run, Some(Duration::ZERO))).await {
        Ok(Err(error)) if error.kind() == ErrorKind::Contended && run.nonblock => {
            return Err(Failure::Conflict(error, run.conflict_exit_code));
        }
        Ok(Err(error)) if may_pass(&error) && !run.nonblock => Some(error),
        Ok(other) => return Ok(other?),
        Err(_) => None,
    };
    let names: Vec<&[u8]> = run.names().map(|name| name.as_bytes()).collect();
    // If the first try had no answer in time, a last one collects the servers' errors.
    let least = if refused.is_none() { LAST_TRY } else { Duration::ZERO };
    let refused = refused.as_ref().filter(|_| !run.quiet);
    let waiting = refused.map(|refused| Waiting::begin(&names, refused));
    let mut lock = pin!(ask(locker, run, until.left().map(|left| left.max(least))));
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

/// Requests the lock, one of several, a share or the office of a candidate; with a limit of zero it only tries.
async fn ask(locker: &Locker, run: &Run, limit: Option<Duration>) -> Result<Guard, Error> {
    let name = run.name.as_bytes();
    if let Some(priority) = run.priority {
        let campaign = locker.elect(name).campaign(label(run)).priority(priority);
        let campaign = match limit {
            Some(limit) => campaign.wait_at_most(limit),
            None => campaign,
        };
        return campaign.await.map(Leadership::into_guard);
    }
    let is_once = limit == Some(Duration::ZERO);
    let request = match run.permits {
        Some(permits) if is_once => locker.semaphore(name, permits).try_acquire(1),
        Some(permits) => locker.semaphore(name, permits).acquire(1),
        None if run.shared && is_once => locker.try_read(name),
        None if run.shared => locker.read(name),
        None if !run.or.is_empty() => {
            let any = locker.lock_any(run.names().map(|name| name.as_bytes()));
            return held(limited(any, limit), run).await;
        }
        None if is_once => locker.try_lock(name),
        None => locker.lock(name),
    };
    let request = if is_once { request } else { limited(request, limit) };
    held(request, run).await
}

fn limited(request: LockRequest, limit: Option<Duration>) -> LockRequest {
    match limit {
        Some(limit) => request.wait_at_most(limit),
        None => request,
    }
}

/// Acquires the lock by a ticket.
pub async fn adopt(
    locker: &Locker,
    servers: &Servers,
    run: &Run,
    file: &Path,
) -> Result<Guard, Failure> {
    let key = [servers.key_prefix.as_bytes(), run.name.as_bytes()].concat();
    let ticket = ticket::read(file, &key).await?;
    held(locker.adopt(&ticket), run).await.map_err(|error| match error.kind() == ErrorKind::Lost {
        true => Failure::Conflict(error, run.conflict_exit_code),
        false => Failure::Lock(error),
    })
}

/// Sets --hold-at-least, --hold-at-most and the like.
fn held(request: LockRequest, run: &Run) -> LockRequest {
    let request = match run.hold_at_least {
        Some(time) => request.hold_at_least(time),
        None => request,
    };
    let request = match run.hold_at_most {
        Some(limit) => request.hold_at_most(limit),
        None => request,
    };
    request.lock_delay(run.lock_delay.unwrap_or_default())
}

fn conflict(error: Error, run: &Run) -> Failure {
    if error.kind() == ErrorKind::Contended {
        return Failure::Conflict(error, run.conflict_exit_code);
    }
    Failure::Lock(error)
}
