//! One command on its way to one server, and its reply.

use std::sync::Arc;

use leasehold_resp::Frame;

use super::answer::Reason;
use crate::box_future::BoxFuture;
use crate::net::connection::Connection;
use crate::net::outcome::{Fault, Outcome};
use crate::net::proof::Expected;
use crate::net::refusal::{Code, ServerError};
use crate::net::reply::Reply;
use crate::policy::Moment;
use crate::server::call::{Call, begin_behind};
use crate::server::command::Command;

/// It was answered, and not with an error.
pub(super) struct Replied {
    frame: Frame,
    /// What it came on.
    connection: Arc<Connection>,
}

const ASKING: Command<'static> = Command::Unstamped(&[b"ASKING"], Expected::Flag);

/// What the server answers. To a server that does not serve its slot yet, which `is_asking`, the command goes
/// with nothing between it and the word that says so.
///
/// Once it is sent, `asked_at` is when it was asked for: before its first byte was sent.
///
/// Where the user has no right to the word ahead, the server sends on what comes behind it, and for
/// ever: what it says of the right is the answer.
///
/// # Cancel safety
///
/// When the future is dropped, it was sent if `asked_at` was set.
pub(super) fn ask<'a>(
    command: Command<'a>,
    connection: &'a Arc<Connection>,
    is_asking: bool,
    asked_at: &'a mut Option<Moment>,
) -> BoxFuture<'a, Result<Replied, Reason>> {
    Box::pin(async move {
        let (word, call) = if is_asking {
            let begun = begin_behind(connection, ASKING, command).await;
            let (word, call) = begun.map_err(Reason::NoReply)?;
            (Some(word), call)
        } else {
            (None, Call::begin(connection, command).await.map_err(Reason::NoReply)?)
        };
        *asked_at = Some(call.asked_at());
        match (reply_to(call).await, word) {
            (Err(Reason::Refused(error)), Some(word)) => {
                Err(Reason::Refused(lacking(word).await.unwrap_or(error)))
            }
            (reply, _) => reply,
        }
    })
}

/// The right that the user lacks for a word, if that is what the server says to it.
async fn lacking(word: Reply) -> Option<ServerError> {
    let error = ServerError::new(word.await.ok()?.error()?);
    (error.code() == Code::Permission).then_some(error)
}

impl Replied {
    /// An answer that counts as it is.
    pub(super) fn plainly(frame: Frame, connection: Arc<Connection>) -> Self {
        Self { frame, connection }
    }

    /// What `read` makes of it. Where that is nothing, the connection ends: a server that sends what
    /// makes no sense is not to be believed in anything else.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Frame) -> Option<T>) -> Result<T, Reason> {
        understood(&self.connection, read(&self.frame))
    }
}

/// See [`Replied::read`].
pub(super) fn understood<T>(connection: &Connection, read: Option<T>) -> Result<T, Reason> {
    read.ok_or_else(|| {
        connection.fail(Fault::Unexpected);
        Reason::Unexpected
    })
}

pub(super) async fn reply_to(mut call: Call<'_>) -> Result<Replied, Reason> {
    let outcome = (&mut call).await;
    let frame = read_reply(&call, outcome)?;
    Ok(Replied::plainly(frame, Arc::clone(call.connection())))
}

/// What came of a call: an error reply is a refusal.
pub(super) fn read_reply(call: &Call<'_>, outcome: Outcome) -> Result<Frame, Reason> {
    let reply = outcome.map_err(Reason::NoReply)?;
    match reply.error() {
        Some(text) => Err(Reason::Refused(call.refusal(text))),
        None => Ok(reply),
    }
}
