//! One command under way on one connection, and what recovers it when its script is missing.
//!
//! `NOSCRIPT` is routine: SCRIPT FLUSH, a restart and a failover all lose the cache. It proves
//! that nothing ran, so the script itself is sent once (EVAL, which also loads it again), on the
//! same connection. So does `AGAIN`, by which a script says that it came to the bound of its work before it
//! did what it was asked: it is sent until it has. No other reply, and no failure, is ever answered by sending again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use leasehold_resp::command_len;

use super::command::Command;
use super::encoded::EncodedCommand;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::outcome::{Failure, Outcome};
use crate::net::proof::Expected;
use crate::net::refusal::{Code, ServerError};
use crate::net::reply::Reply;
use crate::policy::{Moment, Redelivery};

/// A command under way.
///
/// # Cancel safety
///
/// Dropping it does not take the command back.
pub(crate) struct Call<'a> {
    command: Command<'a>,
    asked_at: Moment,
    reply: Reply,
    script_sent: bool,
}

impl<'a> Call<'a> {
    /// Waits for room on `connection` and sends `command`.
    ///
    /// # Cancel safety
    ///
    /// Nothing was sent when the future is dropped before it is ready.
    pub(crate) async fn begin(
        connection: &Arc<Connection>,
        command: Command<'a>,
    ) -> Result<Self, Failure> {
        let begun = Self::begin_now(connection, &mut EncodedCommand::new(command), Waker::noop());
        if let Some(begun) = begun {
            return begun;
        }
        // Measured and encoded again once there is room: kept meanwhile, it would make this future
        // larger for all callers that need not wait.
        let outgoing = command.brought_by(connection).unwrap_or(command);
        let length = EncodedCommand::new(outgoing).encoded().len();
        let permit = connection.admit(length).await?;
        let mut encoded = EncodedCommand::new(outgoing);
        let encoded = encoded.encoded();
        // Safety rule 2: the lease is counted from here, before the first byte is sent.
        let asked_at = clock::now();
        let expected = command.expected();
        let reply = connection.send(permit, encoded, expected, asked_at, Waker::noop())?;
        Ok(Self::new(command, asked_at, reply))
    }

    /// Sends the command if there is room for it now. Its reply wakes `waker`, until the first
    /// poll.
    pub(crate) fn begin_now(
        connection: &Arc<Connection>,
        encoded: &mut EncodedCommand<'a>,
        waker: &Waker,
    ) -> Option<Result<Self, Failure>> {
        let command = encoded.command();
        let mut brought = command.brought_by(connection).map(EncodedCommand::new);
        let encoded = brought.as_mut().unwrap_or(encoded).encoded();
        // Safety rule 2: as below.
        let asked_at = clock::now();
        let sent = connection.try_send(encoded, command.expected(), asked_at, waker)?;
        Some(sent.map(|reply| Self::new(command, asked_at, reply)))
    }

    fn new(command: Command<'a>, asked_at: Moment, reply: Reply) -> Self {
        command.note_sent(reply.connection());
        Self { command, asked_at, reply, script_sent: false }
    }

    /// What it went out on.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        self.reply.connection()
    }

    /// See [`Command::refusal`].
    pub(crate) fn refusal(&self, text: &[u8]) -> ServerError {
        self.command.refusal(text)
    }

    /// When it was asked for: before its first byte was sent.
    pub(crate) fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// From when on its connection counts the time that it may take; none once its script had to be
    /// sent too, which is given its own.
    pub(crate) fn timed_from(&self) -> Option<Moment> {
        (!self.script_sent).then_some(self.asked_at)
    }

    /// Leaves behind that the server is owed the command: see [`Reply::leave_owed`]. Whether it is
    /// seen through now; else it has to be sent again.
    pub(crate) fn leave_owed(self, slot: u16, again: Redelivery, counted: Arc<()>) -> bool {
        let owed = self.command.owed(true, slot, again, counted);
        self.reply.leave_owed(owed).is_ok()
    }

    /// Sends the script itself in the place of its digest.
    fn send_script(&mut self) -> Result<(), Failure> {
        let words = self.command.spell_whole().words();
        let expected = self.command.expected();
        self.reply = self.connection().send_unbounded(&words, expected, clock::now())?;
        self.script_sent = true;
        Ok(())
    }
}

impl Future for Call<'_> {
    type Output = Outcome;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let outcome = ready!(Pin::new(&mut self.reply).poll(context));
            match refused_by(&outcome) {
                Some(Code::NoScript) if !self.script_sent => {}
                Some(Code::Again) => {}
                _ => return Poll::Ready(outcome),
            }
            if let Err(failure) = self.send_script() {
                return Poll::Ready(Err(failure));
            }
        }
    }
}

/// Sends `command`, asked for at `asked_at`, if there is room for it now. Its reply, which
/// wakes `waker` until it is polled for, is told as it comes: also that the server lacks the script.
pub(crate) fn send_now(
    connection: &Arc<Connection>,
    command: Command<'_>,
    asked_at: Moment,
    waker: &Waker,
) -> Option<Reply> {
    let mut encoded = EncodedCommand::new(command);
    let encoded = encoded.encoded();
    connection.try_send(encoded, command.expected(), asked_at, waker)?.ok()
}

/// Waits for room on `connection` for all of `commands`, and sends them in one write with nothing
/// between them; each is then waited for by itself. Where there could never be room for all of
/// them together, they go in several such portions, in order, each with its own
/// [`Call::asked_at`].
///
/// # Errors
///
/// As [`Call::begin`], when none of them was sent. [`Failure::Unknown`], when a portion was sent
/// and a later one could not be.
///
/// # Cancel safety
///
/// When the future is dropped before it is ready, nothing was sent; or whole portions, if there
/// are several.
pub(crate) async fn begin_all<'a>(
    connection: &Arc<Connection>,
    commands: &[Command<'a>],
) -> Result<Vec<Call<'a>>, Failure> {
    let mut spelled = Vec::with_capacity(commands.len());
    for command in commands {
        let outgoing = command.brought_by(connection).unwrap_or(*command);
        let words = outgoing.spell().words();
        let length = command_len(&words);
        Connection::check_size(length)?;
        spelled.push((words, command.expected(), length));
    }
    let mut calls = Vec::with_capacity(commands.len());
    while calls.len() < commands.len() {
        let from = calls.len();
        let portion = send_portion(connection, &spelled[from..]).await;
        let (asked_at, replies) = portion.map_err(|failure| match failure {
            Failure::NotSent(fault) if from > 0 => Failure::Unknown(fault),
            failure => failure,
        })?;
        let begun = commands[from..].iter().zip(replies);
        calls.extend(begun.map(|(&command, reply)| Call::new(command, asked_at, reply)));
    }
    Ok(calls)
}

/// As [`Call::begin`], with another command right `ahead` of it: nothing comes between. The reply to
/// that is given back, too.
///
/// The script itself is sent: what makes up for a missing one would come behind others.
///
/// # Errors
///
/// As [`Call::begin`]: neither was sent.
///
/// # Cancel safety
///
/// As [`Call::begin`].
pub(crate) async fn begin_behind<'a>(
    connection: &Arc<Connection>,
    ahead: Command<'_>,
    command: Command<'a>,
) -> Result<(Reply, Call<'a>), Failure> {
    let command = command.whole();
    let both = [ahead, command].map(|command| {
        let words = command.spell_whole().words();
        let length = command_len(&words);
        (words, command.expected(), length)
    });
    // Far less than what may be in flight together.
    let (asked_at, replies) = send_portion(connection, &both).await?;
    let mut replies = replies.into_iter();
    let said_ahead = replies.next().zip(replies.next());
    let (said_ahead, reply) = said_ahead.ok_or_else(|| Failure::Unknown(connection.fault()))?;
    Ok((said_ahead, Call::new(command, asked_at, reply)))
}

/// Sends as many of these, each with its length, as may be in flight together.
async fn send_portion(
    connection: &Arc<Connection>,
    spelled: &[(Vec<&[u8]>, Expected, usize)],
) -> Result<(Moment, Vec<Reply>), Failure> {
    let (permit, count) = connection.admit_all(spelled.iter().map(|(.., length)| *length)).await?;
    // As for a single one: before the first byte is sent.
    let asked_at = clock::now();
    let commands = spelled[..count].iter();
    let commands = commands.map(|(words, expected, length)| (&words[..], *expected, *length));
    Ok((asked_at, connection.send_all(permit, commands, asked_at)?))
}

/// Sends `command` and waits for its reply: for what is not asked often.
///
/// # Cancel safety
///
/// When the future is dropped, it may have been sent.
pub(crate) fn ask<'a>(
    connection: &'a Arc<Connection>,
    command: Command<'a>,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move { Call::begin(connection, command).await?.await })
}

/// Sends `command` now, whatever else is in flight, with the script itself: it is carried out
/// behind all that was sent before it and nothing else, or not at all.
pub(crate) fn send_whole(
    connection: &Arc<Connection>,
    command: Command<'_>,
) -> Result<Reply, Failure> {
    connection.send_unbounded(&command.spell_whole().words(), command.expected(), clock::now())
}

fn refused_by(outcome: &Outcome) -> Option<Code> {
    let text = outcome.as_ref().ok()?.error()?;
    Some(ServerError::new(text).code())
}

#[cfg(test)]
mod tests;
