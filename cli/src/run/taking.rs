//! How the keeper comes to the lock.

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
/// The least limit of a wait, below which it would be a try without one.
const LAST_TRY: Duration = Duration::from_millis(1);

/// The holder's name, as others see it.
pub fn label(run: &Run) -> String {
    run.label.clone().unwrap_or_else(|| label_of(getppid()))
}

/// Takes the lock, and says so if it has to be waited for.
pub async fn take(locker: &Locker, run: &Run, until: Until) -> Result<Guard, Failure> {
    if run.steal {
        let guard = held(locker.try_lock(run.name.as_bytes()).steal(), run).await?;
        if let Some(from) = guard.report().taken_from().next() {
            let name = plain(guard.name());
            complain(&format!("{name}: the lock was taken from its holder, {from}"));
        }
        return Ok(guard);
    }
    // One that does not wait has one try, which takes its time.
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
    // Where there was no answer until the end, what is known of the servers is said.
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

/// Asks for what is to be taken, once where the limit is zero: the lock, the first of several, or the office of a
/// candidate.
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

/// Takes the lock by a ticket.
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

/// For as long as it is to be held and kept from others.
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
