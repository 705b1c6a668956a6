//! Findings on a server that was connected or could not be.

use super::facts::shown;
use super::report::{Check, Finding, ServerExamination, ServerKind};
use crate::error::FailureKind;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;

/// The cure for protected mode, in which a server without a password serves only its own machine.
const PROTECTED: &str = "set a password there (requirepass), and give it to the URL; or run CONFIG SET protected-mode no on \
                         the server's own machine, where a firewall keeps others away";
const FULL: &str =
    "raise maxclients (CONFIG SET maxclients), or end clients: CLIENT LIST says whose they are";

/// The finding on a server that could not be connected.
pub(super) fn unmet(reason: &Reason) -> Finding {
    let text = shown(&reason.to_string());
    let said = match reason {
        Reason::NoConnection(OpenError::Refused { error, .. }) => error.text(),
        _ => "",
    };
    let cures = [
        ("DENIED", Check::Login, PROTECTED),
        ("ERR max number of clients", Check::Reachable, FULL),
    ];
    if let Some((_, check, cure)) = cures.into_iter().find(|(begins, ..)| said.starts_with(begins))
    {
        return Finding::error(check, text).cured_by(cure);
    }
    match reason.kind() {
        FailureKind::Auth => Finding::error(Check::Login, text)
            .cured_by("check the user, the password, the user's rights, and both certificates"),
        FailureKind::Misuse => {
            Finding::error(Check::Login, text).cured_by("check the URL's scheme, port and database")
        }
        _ => Finding::error(Check::Reachable, text)
            .cured_by("check its address, that it runs, and the network between"),
    }
}

/// The report of a party with one finding.
pub(super) fn asked(server: &str, kind: ServerKind, finding: Finding) -> ServerExamination {
    let (server, findings) = (shown(server), vec![finding]);
    ServerExamination { server, kind, version: None, round_trip: None, findings }
}
