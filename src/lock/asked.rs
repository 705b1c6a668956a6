//! One command on its way to one server, with what has to come of it before its answer counts.

use std::sync::Arc;

use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::order::Replicas;
use crate::box_future::BoxFuture;
use crate::net::acknowledged::Acknowledged;
use crate::net::connection::Connection;
use crate::net::outcome::{Fault, Outcome};
use crate::net::proof::Expected;
use crate::net::refusal::{Code, ServerError};
use crate::net::reply::Reply;
use crate::policy::Moment;
use crate::server::call::{Call, begin_behind};
use crate::server::command::Command;

/// A command, and the replicas that have to have what it wrote.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) command: Command<'a>,
    pub(super) awaits: Option<Replicas>,
}

/// It was answered, and not with an error.
pub(super) struct Replied {
    frame: Frame,
    /// What it came on.
    connection: Arc<Connection>,
    /// Why it does not count, if it was granted.
    shortage: Option<Reason>,
}

const ASKING: Command<'static> = Command::Unstamped(&[b"ASKING"], Expected::Flag);

impl<'a> Asked<'a> {
    /// A command whose answer counts as it is.
    pub(super) fn plainly(command: Command<'a>) -> Self {
        Self { command, awaits: None }
    }

    /// What the server answers. To a server that does not serve its slot yet, which `is_asking`, it goes
    /// with nothing between it and the word that says so. Where replicas are awaited, they are asked right
    /// behind it, and the script itself is sent: what makes up for a missing one would come behind that.
    ///
    /// Once it is sent, `asked_at` is when it was asked for: before its first byte was sent.
    ///
    /// Where the user has no right to the word ahead, the server sends on what comes behind it, and for
    /// ever: what it says of the right is the answer.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, it was sent if `asked_at` was set.
    pub(super) fn ask<'c>(
        self,
        connection: &'c Arc<Connection>,
        is_asking: bool,
        asked_at: &'c mut Option<Moment>,
    ) -> BoxFuture<'c, Result<Replied, Reason>>
    where
        'a: 'c,
    {
        let Self { command, awaits } = self;
        Box::pin(async move {
            let (word, call) = if is_asking {
                let begun = begin_behind(connection, ASKING, command).await;
                let (word, call) = begun.map_err(Reason::NoReply)?;
                (Some(word), call)
            } else {
                let command = if awaits.is_some() { command.whole() } else { command };
                (None, Call::begin(connection, command).await.map_err(Reason::NoReply)?)
            };
            *asked_at = Some(call.asked_at());
            let awaited = awaits.map(|replicas| replicas.ask(connection));
            let replied = match (reply_to(call).await, word) {
                (Err(Reason::Refused(error)), Some(word)) => {
                    return Err(Reason::Refused(lacking(word).await.unwrap_or(error)));
                }
                (reply, _) => reply?,
            };
            let shortage = match awaited {
                Some(awaited) => awaited.shortage().await,
                None => None,
            };
            Ok(Replied { shortage, ..replied })
        })
    }
}

impl Replicas {
    /// Asks how many replicas have all that was sent on the connection so far.
    pub(super) fn ask(self, connection: &Arc<Connection>) -> Awaited {
        let Self { count, within } = self;
        Awaited { acknowledged: connection.acknowledged(count, within), needed: count }
    }
}

/// A question to replicas that is under way.
pub(super) struct Awaited {
    acknowledged: Acknowledged,
    needed: u32,
}

impl Awaited {
    /// Why too few replicas have what was written, if so.
    async fn shortage(self) -> Option<Reason> {
        let needed = self.needed;
        match self.count().await {
            Ok(acknowledged) if acknowledged >= needed.into() => None,
            Ok(acknowledged) => Some(Reason::TooFewReplicas { acknowledged, needed }),
            Err(reason) => Some(reason),
        }
    }

    /// How many replicas have what was written.
    pub(super) async fn count(self) -> Result<i64, Reason> {
        let connection = Arc::clone(self.acknowledged.connection());
        let frame = self.acknowledged.await.map_err(Reason::NoReply)?;
        match (frame.as_integer(), frame.error()) {
            (Some(acknowledged), _) => Ok(acknowledged),
            (None, Some(text)) => Err(Reason::Refused(ServerError::new(text))),
            (None, None) => understood(&connection, None),
        }
    }
}

/// The right that the user lacks for a word, if that is what the server says to it.
async fn lacking(word: Reply) -> Option<ServerError> {
    let error = ServerError::new(word.await.ok()?.error()?);
    (error.code() == Code::Permission).then_some(error)
}

impl Replied {
    /// An answer that counts as it is.
    pub(super) fn plainly(frame: Frame, connection: Arc<Connection>) -> Self {
        Self { frame, connection, shortage: None }
    }

    /// What `read` makes of it. Where that is nothing, the connection ends: a server that sends what
    /// makes no sense is not to be believed in anything else.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Frame) -> Option<T>) -> Result<T, Reason> {
        understood(&self.connection, read(&self.frame))
    }

    /// What it means, and why it does not count anyway, if so.
    pub(super) fn into_answer(
        self,
        read: fn(&Frame) -> Option<Answer>,
    ) -> Result<(Answer, Option<Reason>), Reason> {
        let answer = self.read(read)?;
        let shortage = self.shortage.filter(|_| answer.is_grant());
        Ok((answer, shortage))
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
