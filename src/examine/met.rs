//! What is to be said of a server that was asked, or that could not be.

#[cfg(feature = "cluster")]
use std::sync::Arc;

use super::facts::shown;
#[cfg(feature = "cluster")]
use super::plan::Plan;
use super::report::{Check, Finding, ServerExamination, ServerKind};
use crate::error::FailureKind;
use crate::net::reason::Reason;
#[cfg(feature = "cluster")]
use crate::net::{connection::Connection, open_error::OpenError, pushes::Listeners};
#[cfg(feature = "cluster")]
use crate::server::endpoint::Endpoint;

#[cfg(feature = "cluster")]
pub(super) async fn open(plan: &Plan, endpoint: &Endpoint) -> Result<Arc<Connection>, OpenError> {
    let opened = plan.settings.open_bare(endpoint, Listeners::default()).await;
    opened.map(|session| session.opened.connection)
}

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
