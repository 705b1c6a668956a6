//! One command on its way to one server, with what has to come of it before its answer counts.

use std::sync::Arc;

use leasehold_resp::{Decimal, Frame};

use super::answer::{Answer, Reason};
use super::order::Replicas;
use crate::net::connection::Connection;
use crate::net::outcome::Outcome;
use crate::net::refusal::{Code, ServerError};
use crate::net::reply::Reply;
use crate::policy::Moment;
use crate::server::call::{Call, begin_amid};
use crate::server::command::Command;

/// A command, and who has to have what it wrote.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) command: Command<'a>,
    pub(super) awaits: Option<Replicas>,
}

/// It was sent.
pub(super) struct Sent<'a> {
    /// What is said to the word that the slot is not served yet, if that went ahead of it.
    word: Option<Reply>,
    call: Call<'a>,
    /// How many replicas have what was written, once it is known; and how many should.
    acknowledged: Option<(Reply, u32)>,
}

/// It was answered, and not with an error.
pub(super) struct Replied {
    frame: Frame,
    /// Why it does not count, if it was granted.
    shortage: Option<Reason>,
}

impl<'a> Asked<'a> {
    /// A command whose answer counts as it is.
    pub(super) fn plainly(command: Command<'a>) -> Self {
        Self { command, awaits: None }
    }

    /// Sends it; to a server that does not serve its slot yet, which `is_asking`, with nothing
    /// between it and the word that says so.
    ///
    /// # Cancel safety
    ///
    /// Nothing was sent when the future is dropped before it is ready.
    pub(super) async fn send(
        self,
        connection: &Arc<Connection>,
        is_asking: bool,
    ) -> Result<Sent<'a>, Reason> {
        if is_asking || self.awaits.is_some() {
            return Box::pin(send_amid(connection, is_asking, self)).await;
        }
        let call = Call::begin(connection, self.command).await.map_err(Reason::NoReply)?;
        Ok(Sent { word: None, call, acknowledged: None })
    }
}

async fn send_amid<'a>(
    connection: &Arc<Connection>,
    is_asking: bool,
    Asked { command, awaits }: Asked<'a>,
) -> Result<Sent<'a>, Reason> {
    let ahead: Option<&[&[u8]]> = if is_asking { Some(&[b"ASKING"]) } else { None };
    let wait = awaits.map(Wait::new);
    let words = wait.as_ref().map(Wait::words);
    let behind = words.as_ref().map(|words| &words[..]);
    let begun = begin_amid(connection, ahead, command, behind).await;
    let (word, call, reply) = begun.map_err(Reason::NoReply)?;
    let acknowledged = reply.zip(awaits.map(|replicas| replicas.count));
    Ok(Sent { word, call, acknowledged })
}

/// What has replicas awaited.
pub(super) struct Wait {
    count: Decimal,
    millis: Decimal,
}

impl Wait {
    pub(super) fn new(Replicas { count, within }: Replicas) -> Self {
        // No time at all would be for ever.
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
        Self { count: Decimal::new(count.into()), millis: Decimal::new(millis) }
    }

    pub(super) fn words(&self) -> [&[u8]; 3] {
        [b"WAIT", &self.count, &self.millis]
    }
}

impl Sent<'_> {
    /// When it was asked for: before its first byte was sent.
    pub(super) fn asked_at(&self) -> Moment {
        self.call.asked_at()
    }

    /// What the server answers. Where the user has no right to the word ahead, the server sends on
    /// what comes behind it, and for ever: what it says of the right is the answer.
    pub(super) async fn reply(self) -> Result<Replied, Reason> {
        let frame = match (reply_to(self.call).await, self.word) {
            (Err(Reason::Refused(error)), Some(word)) => {
                return Err(Reason::Refused(lacking(word).await.unwrap_or(error)));
            }
            (reply, _) => reply?,
        };
        let shortage = match self.acknowledged {
            Some((reply, needed)) => Box::pin(shortage(reply, needed)).await,
            None => None,
        };
        Ok(Replied { frame, shortage })
    }
}

/// The right that the user lacks for a word, if that is what the server says to it.
async fn lacking(word: Reply) -> Option<ServerError> {
    let error = ServerError::new(word.await.ok()?.error()?);
    (error.code() == Code::Permission).then_some(error)
}

/// Why too few replicas have what was written, if so.
pub(super) async fn shortage(reply: Reply, needed: u32) -> Option<Reason> {
    match reply.await {
        Ok(frame) => match (frame.as_integer(), frame.error()) {
            (Some(acknowledged), _) if acknowledged >= needed.into() => None,
            (Some(acknowledged), _) => Some(Reason::TooFewReplicas { acknowledged, needed }),
            (None, Some(text)) => Some(Reason::Refused(ServerError::new(text))),
            (None, None) => Some(Reason::Unexpected),
        },
        Err(failure) => Some(Reason::NoReply(failure)),
    }
}

impl Replied {
    /// An answer that counts as it is.
    pub(super) fn plainly(frame: Frame) -> Self {
        Self { frame, shortage: None }
    }

    /// What it means, and why it does not count all the same, if so.
    pub(super) fn read(
        self,
        read: fn(&Frame) -> Option<Answer>,
    ) -> Result<(Answer, Option<Reason>), Reason> {
        let answer = read(&self.frame).ok_or(Reason::Unexpected)?;
        let shortage = self.shortage.filter(|_| matches!(answer, Answer::Granted(_)));
        Ok((answer, shortage))
    }

    pub(super) fn into_frame(self) -> Frame {
        self.frame
    }
}

pub(super) async fn reply_to(mut call: Call<'_>) -> Result<Frame, Reason> {
    let outcome = (&mut call).await;
    read_reply(&call, outcome)
}

/// What came of a call: an error reply is a refusal.
pub(super) fn read_reply(call: &Call<'_>, outcome: Outcome) -> Result<Frame, Reason> {
    let reply = outcome.map_err(Reason::NoReply)?;
    match reply.error() {
        Some(text) => Err(Reason::Refused(call.refusal(text))),
        None => Ok(reply),
    }
}
