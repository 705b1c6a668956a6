//! One question to the server that decides alone, where its reply is all that has to be waited for.

use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};

use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::ask::{Unsettled, judge_vote};
use super::asked::understood;
use super::hold::Hold;
use super::participant::Binding;
use super::round::Answered;
use crate::net::connection::Connection;
use crate::net::outcome::Outcome;
use crate::net::reply::Reply;
use crate::policy::Moment;
use crate::server::call::send_now;
use crate::server::command::Command;

/// A command that was sent, and when it was asked for: before its first byte.
pub(super) struct Sent {
    reply: Reply,
    pub(super) asked_at: Moment,
}

/// Whether one server has the one lock.
pub(super) fn decides(hold: &Hold) -> bool {
    hold.core.is_single() && hold.names.len() == 1
}

/// The connection that a vote goes out on, if the server may be asked for one right now.
pub(super) fn voter(hold: &Hold) -> Option<(MutexGuard<'_, Binding>, Arc<Connection>)> {
    let participant = &hold.participants[0];
    let mut binding = participant.binding();
    if binding.is_unbound() {
        return None;
    }
    binding.follow(hold.place_of(participant), participant.slot);
    let bound = binding.connection();
    let connection = bound.or_else(|| binding.node.connection_now(binding.lane()).ok())?;
    binding.node.check(binding.lane()).ok()?;
    Some((binding, connection))
}

/// Sends a command that asks for a vote, from `asked_at` on; its reply wakes `waker`, until it is polled for.
pub(super) fn send_vote(
    hold: &Hold,
    command: Command<'_>,
    asked_at: Moment,
    waker: &Waker,
) -> Option<Sent> {
    let (mut binding, connection) = voter(hold)?;
    let sent = send(&connection, command, asked_at, waker)?;
    binding.take(connection);
    binding.ask(true);
    Some(sent)
}

pub(super) fn send(
    connection: &Arc<Connection>,
    command: Command<'_>,
    asked_at: Moment,
    waker: &Waker,
) -> Option<Sent> {
    let reply = send_now(connection, command, asked_at, waker)?;
    Some(Sent { reply, asked_at })
}

impl Sent {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.reply).poll(context)
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        self.reply.connection()
    }

    /// What the reply to a vote comes to.
    ///
    /// # Errors
    ///
    /// The reply, where it is not the last word.
    pub(super) fn judge(
        &self,
        hold: &Hold,
        outcome: Outcome,
        read: fn(&Frame) -> Option<Answer>,
    ) -> Result<Answered, Unsettled> {
        let answer = match outcome {
            Ok(frame) if frame.error().is_some() || frame == Frame::Null => {
                let connection = Arc::clone(self.connection());
                return Err(Unsettled { frame, connection, asked_at: self.asked_at });
            }
            Ok(frame) => understood(self.connection(), read(&frame)),
            Err(failure) => Err(Reason::NoReply(failure)),
        };
        Ok(judge_vote(hold, 0, answer, self.asked_at))
    }
}
