//! What callers are told, by what the machine says.

use std::time::Duration;

use crate::error::{Error, ErrorKind, FailureKind, Kind, Report, Vote};
use crate::machine::Refusal;
use crate::names::Names;
use crate::policy::{Loss, Quorum, Setback, Verdict};

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

/// The same of a request for the lease of a ticket: nobody else can be waited for.
#[cfg(any(test, feature = "takeover"))]
pub(crate) fn of_ticket(names: &Names, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Contended => of(names, Kind::Spent, error.report().clone()),
        _ => error,
    }
}

/// Of a lease that has ended.
pub(crate) fn lost(names: &Names, loss: Loss) -> Error {
    of(names, Kind::Lost(loss), Report::default())
}

/// Of an extension or a release that too few servers have confirmed. It is final where those that may confirm it some
/// time are too few.
pub(crate) fn unconfirmed(names: &Names, quorum: Quorum, report: Report) -> Error {
    let never = report.servers.iter().filter(|server| {
        matches!(server.vote, Vote::Failed { kind: FailureKind::Auth | FailureKind::Misuse, .. })
    });
    let is_final = quorum.verdict(0, never.count()) == Verdict::Lost;
    of(names, Kind::NoQuorum { waited: None, is_final }, report)
}

fn of(names: &Names, kind: Kind, report: Report) -> Error {
    Error::new(kind, names.to_string(), report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, ServerReport};

    #[test]
    fn what_a_quorum_may_confirm_some_time_is_not_final() {
        let (names, quorum) = (Names::new(b"", b"a").unwrap(), Quorum::new(3, None).unwrap());
        let kind = |failures: [FailureKind; 3]| {
            let server = |kind| ServerReport {
                server: String::new(),
                vote: Vote::Failed { kind, reason: String::new() },
                round_trip: None,
            };
            let report = Report { servers: failures.map(server).into() };
            unconfirmed(&names, quorum, report).kind()
        };
        use FailureKind::{Auth, Misuse, Unavailable};
        assert_eq!(kind([Misuse, Unavailable, Unavailable]), ErrorKind::Unavailable);
        assert_eq!(kind([Misuse, Unavailable, Misuse]), ErrorKind::Misuse);
        assert_eq!(kind([Misuse, Unavailable, Auth]), ErrorKind::Auth);
    }

    #[test]
    fn a_name_is_shown_harmlessly() {
        let names = Names::new(b"", &b"\x1b[2J\n".repeat(1000)).unwrap();
        let said = lost(&names, Loss::Expired).to_string();
        assert!(!said.contains(char::is_control) && said.len() < 2000, "{said:?}");
    }
}
