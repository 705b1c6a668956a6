//! What callers are told, by what the machine says.

use std::time::Duration;

use crate::error::{Error, FailureKind, Kind, Report};
use crate::machine::Refusal;
use crate::names::Names;
use crate::policy::{Loss, Setback};

/// Whether enough servers serve, where these do not: no wrong setting among them is put up with.
///
/// # Errors
///
/// What is wrong with each.
pub(crate) fn met(unmet: Report, servers: usize, needed: usize) -> Result<(), Error> {
    if unmet.has_failure(FailureKind::Misuse) || servers - unmet.servers.len() < needed {
        return Err(Error::connect(unmet));
    }
    Ok(())
}

/// Of a request that came to nothing after this time.
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

/// Of a lease that has ended.
pub(crate) fn lost(names: &Names, loss: Loss) -> Error {
    of(names, Kind::Lost(loss), Report::default())
}

/// Of an extension or a release that too few servers have confirmed.
pub(crate) fn unconfirmed(names: &Names, report: Report) -> Error {
    of(names, Kind::NoQuorum { waited: None, is_final: false }, report)
}

fn of(names: &Names, kind: Kind, report: Report) -> Error {
    Error::new(kind, String::from_utf8_lossy(names.lock()).into_owned(), report)
}
