//! From the machine's results to those of callers.

use std::time::Duration;

use crate::error::{Error, ErrorKind, FailureKind, Kind, Report, Vote};
use crate::machine::Refusal;
use crate::names::Names;
use crate::policy::{Loss, Quorum, Setback, Verdict};

pub(crate) const RELEASE: &str = "release of lock";
pub(crate) const EXTENSION: &str = "extension of lock";
/// Maximum leases to search for the holder when a try is refused: the search keeps the mutex.
const LOOKED_AT_MAX: usize = 4096;

/// Whether enough servers serve, given those that do not. A wrong setting of any server is an error.
///
/// # Errors
///
/// The failures of all servers.
pub(crate) fn met(unmet: Report, servers: usize, needed: usize) -> Result<(), Error> {
    if unmet.has_failure(FailureKind::Misuse) || servers - unmet.servers.len() < needed {
        return Err(Error::connect(unmet));
    }
    Ok(())
}

/// The error of a request that was refused after this time.
pub(crate) fn refused(names: &Names, refusal: Refusal, waited: Duration, report: Report) -> Error {
    let (setback, is_over) = match refusal {
        Refusal::Setback { setback, is_over } => (setback, is_over),
        Refusal::Undriven => (Setback::Hopeless, false),
        Refusal::ShutDown => return of(names, Kind::ShutDown, Report::default()),
    };
    let waited = is_over.then_some(waited);
    let kind = match setback {
        Setback::Held(_) | Setback::Watched(_) => Kind::Contended { waited },
        Setback::TooLate => Kind::TooLate,
        Setback::Hopeless => Kind::NoQuorum { waited, is_final: true },
        Setback::Failing | Setback::Quarantined(_) => Kind::NoQuorum { waited, is_final: false },
    };
    of(names, kind, report)
}

/// Marks the holders that are leases of this locker: `has_owner` searches this number of leases.
pub(crate) fn mark_own(error: &mut Error, has_owner: &dyn Fn(&[u8], usize) -> bool) {
    let most = if error.is_timeout() { usize::MAX } else { LOOKED_AT_MAX };
    for holder in error.report_mut().holders_mut() {
        holder.is_here = has_owner(holder.owner.as_bytes(), most);
    }
}

/// As `refused`, for a ticket: contention means that the ticket is spent.
#[cfg(any(test, feature = "takeover"))]
pub(crate) fn of_ticket(names: &Names, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Contended => of(names, Kind::Spent, error.report().clone()),
        _ => error,
    }
}

/// The error of a lease that has ended.
pub(crate) fn lost(names: &Names, loss: Loss) -> Error {
    of(names, Kind::Lost(loss), Report::default())
}

/// The error of a step of a held lock that too few servers confirmed; final if too few of them can ever confirm it.
pub(crate) fn unconfirmed(
    what: &'static str,
    names: &Names,
    quorum: Quorum,
    report: Report,
) -> Error {
    let never = report.servers.iter().filter(|server| {
        matches!(server.vote, Vote::Failed { kind: FailureKind::Auth | FailureKind::Misuse, .. })
    });
    let is_final = quorum.verdict(0, never.count()) == Verdict::Lost;
    Error::of(what, Kind::NoQuorum { waited: None, is_final }, names.to_string(), report)
}

fn of(names: &Names, kind: Kind, report: Report) -> Error {
    Error::new(kind, names.to_string(), report)
}

#[cfg(test)]
mod tests;
