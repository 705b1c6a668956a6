//! Without the features `cluster` and `sentinel` every server stays where it is, and nothing is
//! followed.

use std::sync::Arc;
use std::time::Duration;

use super::answer::Reason;
use super::asked::{Replied, ask};
use super::hold::Hold;
use super::participant::Participant;
use crate::box_future::BoxFuture;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::refusal::ServerError;
use crate::policy::Moment;
use crate::server::command::Command;
use crate::server::node::Node;

/// Nobody waits for another server.
pub(super) const NOT_NOW_FOR: Duration = Duration::ZERO;

/// # Cancel safety
///
/// As [`Node::connection`].
pub(super) async fn reach(
    _: &Hold,
    participant: &Participant,
) -> Result<(Arc<Node>, Arc<Connection>), OpenError> {
    let (node, lane) = {
        let binding = participant.binding();
        (Arc::clone(&binding.node), binding.lane())
    };
    let connection = node.connection(lane).await?;
    participant.binding().take(Arc::clone(&connection));
    Ok((node, connection))
}

/// Asks one question at the server of the participant.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent.
pub(super) async fn ask_one(
    hold: &Hold,
    server: usize,
    command: Command<'_>,
    _: Duration,
) -> Result<Replied, Reason> {
    let bound = hold.participants[server].binding().connection();
    let connection = bound.ok_or(Reason::NoConnection(OpenError::Connecting))?;
    ask(command, &connection, false, &mut None).await
}

/// The refusal, as it is.
pub(super) fn follow<'a>(
    _: &'a Hold,
    _: usize,
    _: Command<'a>,
    error: ServerError,
    _: Duration,
    _: &'a mut Option<Moment>,
) -> BoxFuture<'a, Result<Replied, Reason>> {
    Box::pin(std::future::ready(Err(Reason::Refused(error))))
}
