//! One question put to every server at once, and the verdict on what they answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::core::Core;
use super::few::Few;
use super::round::{Answered, Round};
use crate::clock;
use crate::net::connection::Connection;
use crate::net::handshake::OpenError;
use crate::net::refusal::ServerError;
use crate::policy::{Moment, Quorum, Verdict};
use crate::server::call::{Call, Command};
use crate::server::node::Node;

/// Where a lease is with one server: the lane it was given, and the connection it began on.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) lane: usize,
    pub(super) connection: Option<Arc<Connection>>,
}

impl Seat {
    /// The connection that the lease began on while it lives, else the lane's next.
    async fn take(&mut self, node: &Node) -> Result<Arc<Connection>, OpenError> {
        if let Some(connection) = self.connection.as_ref().filter(|known| known.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        let connection = node.connection(self.lane).await?;
        self.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }
}

/// What is asked, and how the reply is read.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) command: Command<'a>,
    pub(super) read: fn(&Frame) -> Option<Answer>,
    /// What is asked next where the lock is another's and the reply does not say whose.
    pub(super) whose: Option<Command<'a>>,
}

/// Puts `question` to every server, from the caller's task, and returns as soon as the answers
/// decide. What comes later is not waited for.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent to every server whose seat has a
/// connection.
pub(super) async fn ask_all(core: &Core, seats: &mut [Seat], question: Question<'_>) -> Round {
    match (core.nodes(), seats) {
        // The same as below, with its one future kept here rather than on the heap.
        ([node], [seat]) => gather(core.quorum, &mut [pin!(ask(node, seat, question))]).await,
        (nodes, seats) => {
            let mut asked: Vec<_> = nodes
                .iter()
                .zip(seats)
                .map(|(node, seat)| Box::pin(ask(node, seat, question)))
                .collect();
            gather(core.quorum, &mut asked).await
        }
    }
}

async fn gather<A>(quorum: Quorum, asked: &mut [A]) -> Round
where
    A: Future<Output = Answered> + Unpin,
{
    let mut answers: Few<Option<Answered>> = asked.iter().map(|_| None).collect();
    let verdict = poll_fn(|context| {
        for (asked, answer) in asked.iter_mut().zip(answers.iter_mut()) {
            if answer.is_none() {
                if let Poll::Ready(answered) = Pin::new(asked).poll(context) {
                    *answer = Some(answered);
                }
            }
        }
        let given = answers.iter().flatten().count();
        let granted = answers
            .iter()
            .flatten()
            .filter(|answered| matches!(answered.answer, Answer::Granted(_)))
            .count();
        match quorum.verdict(granted, given - granted) {
            Verdict::Pending => Poll::Pending,
            decided => Poll::Ready(decided),
        }
    })
    .await;
    Round { verdict, answers }
}

async fn ask(node: &Node, seat: &mut Seat, question: Question<'_>) -> Answered {
    let mut asked_at = None;
    let answer = match put(node, seat, question, &mut asked_at).await {
        Ok(answer) => answer,
        Err(reason) => Answer::Failed(reason),
    };
    Answered { answer, asked_at, answered_at: clock::now() }
}

async fn put(
    node: &Node,
    seat: &mut Seat,
    question: Question<'_>,
    asked_at: &mut Option<Moment>,
) -> Result<Answer, Reason> {
    let connection = seat.take(node).await.map_err(Reason::NoConnection)?;
    let call = Call::begin(&connection, question.command).await.map_err(Reason::NoReply)?;
    *asked_at = Some(call.asked_at());
    let answer = (question.read)(&reply_to(call).await?).ok_or(Reason::Unexpected)?;
    match (answer, question.whose) {
        (Answer::Taken, Some(whose)) => {
            let call = Call::begin(&connection, whose).await.map_err(Reason::NoReply)?;
            Answer::of_holder(&reply_to(call).await?).ok_or(Reason::Unexpected)
        }
        (answer, _) => Ok(answer),
    }
}

async fn reply_to(call: Call<'_>) -> Result<Frame, Reason> {
    let reply = call.await.map_err(Reason::NoReply)?;
    match reply.error() {
        Some(text) => Err(Reason::Refused(ServerError::new(text))),
        None => Ok(reply),
    }
}
