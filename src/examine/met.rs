//! What is to be said of a server that was asked, or that could not be.

use super::facts::shown;
use super::report::{Check, Finding, ServerExamination, ServerKind};
use crate::error::FailureKind;
use crate::net::reason::Reason;

/// What is to be said of a server that cannot be connected to.
pub(super) fn unmet(reason: &Reason) -> Finding {
    let text = shown(&reason.to_string());
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

/// A party of which there is one thing to say.
pub(super) fn asked(server: &str, kind: ServerKind, finding: Finding) -> ServerExamination {
    let (server, findings) = (shown(server), vec![finding]);
    ServerExamination { server, kind, version: None, round_trip: None, findings }
}
