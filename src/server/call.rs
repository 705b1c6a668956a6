//! One command under way on one connection, and what recovers it when its script is missing.
//!
//! `NOSCRIPT` is routine: SCRIPT FLUSH, a restart and a failover all lose the cache. It proves
//! that nothing ran, so the script itself is sent once (EVAL, which also loads it again), on the
//! same connection. No other reply, and no failure, is ever answered by sending again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use leasehold_resp::{command_len, encode_command};

use super::script::Script;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::outcome::{Failure, Outcome};
use crate::net::refusal::{Code, ServerError};
use crate::net::reply::Reply;
use crate::policy::Moment;

/// More than any script of ours takes.
const PARAMETERS_MAX: usize = 8;

/// A command that can be sent: plain, or a script with its keys and then its arguments.
#[derive(Clone, Copy)]
pub(crate) enum Command<'a> {
    Plain(&'a [&'a [u8]]),
    Script(&'a Script, &'a [&'a [u8]]),
}

/// A script command spelled out on the stack.
struct Spelled<'a> {
    words: [&'a [u8]; PARAMETERS_MAX + 3],
    len: usize,
}

impl<'a> Spelled<'a> {
    fn new(verb: &'a [u8], which: &'a [u8], script: &Script, parameters: &[&'a [u8]]) -> Self {
        let mut words: [&'a [u8]; PARAMETERS_MAX + 3] = [b""; PARAMETERS_MAX + 3];
        words[0] = verb;
        words[1] = which;
        words[2] = script.keys();
        let len = parameters.len() + 3;
        words[3..len].copy_from_slice(parameters);
        Self { words, len }
    }

    fn whole(script: &'a Script, parameters: &[&'a [u8]]) -> Self {
        Self::new(b"EVAL", script.text().as_bytes(), script, parameters)
    }

    fn words(&self) -> &[&'a [u8]] {
        &self.words[..self.len]
    }
}

impl<'a> Command<'a> {
    /// Calls `tell` with the command's words; a script by its digest where `connection` has one.
    fn spell<R>(self, connection: &Connection, tell: impl FnOnce(&[&[u8]]) -> R) -> R {
        match self {
            Self::Plain(words) => tell(words),
            Self::Script(script, parameters) => match connection.digest(script.number()) {
                Some(digest) => tell(Spelled::new(b"EVALSHA", digest, script, parameters).words()),
                None => tell(Spelled::whole(script, parameters).words()),
            },
        }
    }

    /// Calls `tell` with the command's words, which no server can fail to know.
    fn spell_whole<R>(self, tell: impl FnOnce(&[&'a [u8]]) -> R) -> R {
        match self {
            Self::Plain(words) => tell(words),
            Self::Script(script, parameters) => tell(Spelled::whole(script, parameters).words()),
        }
    }

    /// The command encoded, with the script itself: there will be nobody to answer a NOSCRIPT.
    pub(crate) fn encode_whole(self) -> Bytes {
        self.spell_whole(|words| {
            let mut encoded = BytesMut::with_capacity(command_len(words));
            encode_command(&mut encoded, words);
            encoded.freeze()
        })
    }
}

/// A command under way.
///
/// # Cancel safety
///
/// Dropping it does not take the command back.
pub(crate) struct Call<'a> {
    connection: Arc<Connection>,
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
        let length = command.spell(connection, command_len);
        let permit = connection.admit(length).await?;
        // Safety rule 2: the lease is counted from here, before the first byte is sent.
        let asked_at = clock::now();
        let reply = command.spell(connection, |words| connection.send(permit, words, asked_at))?;
        let connection = Arc::clone(connection);
        Ok(Self { connection, command, asked_at, reply, script_sent: false })
    }

    /// When it was asked for: before its first byte was sent.
    pub(crate) fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Sends the script itself in the place of its digest, once.
    fn send_script(&mut self) -> Result<(), Failure> {
        let Self { connection, command, .. } = self;
        let reply = command.spell_whole(|words| connection.send_unbounded(words, clock::now()))?;
        self.reply = reply;
        self.script_sent = true;
        Ok(())
    }
}

impl Future for Call<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let outcome = ready!(Pin::new(&mut self.reply).poll(context));
            if self.script_sent || !lacks_script(&outcome) {
                return Poll::Ready(outcome);
            }
            if let Err(failure) = self.send_script() {
                return Poll::Ready(Err(failure));
            }
        }
    }
}

fn lacks_script(outcome: &Outcome) -> bool {
    let Ok(frame) = outcome else { return false };
    frame.error().is_some_and(|text| ServerError::new(text).code() == Code::NoScript)
}
