//! One question put to one server, and what its answer comes to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use leasehold_resp::Frame;
use tokio::task::yield_now;

use super::answer::{Answer, Reason};
use super::apart::ask_apart;
use super::asked::{Replied, ask, read_reply, understood};
use super::follow::{NOT_NOW_FOR, ask_one, follow, reach};
use super::hold::Hold;
use super::limit::Limit;
use super::participant::{Binding, Participant};
use super::question::Question;
use super::round::Answered;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::refusal::{Code, ServerError};
use crate::policy::{Moment, Redelivery};
use crate::server::call::{Call, send_whole};
use crate::server::command::Command;
use crate::server::encoded::EncodedCommand;
use crate::server::node::Node;

/// A question to one server: on its way before the first poll, if nothing has to be waited for.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent to the server, if its binding has a
/// connection.
pub(super) struct Ask<'a> {
    hold: &'a Hold,
    server: usize,
    question: &'a Question<'a>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Unsent(Option<Reason>),
    Sent(Call<'a>),
    /// Something else than its reply has to be waited for.
    Aside(Aside<'a>),
}

/// On the heap, so that a caller that need not wait does not carry the room for it.
type Aside<'a> = BoxFuture<'a, Answered>;

/// A reply that is not the last word on a question: an error, or one that does not say whose a lock is.
pub(super) struct Unsettled {
    pub(super) frame: Frame,
    /// What it came on.
    pub(super) connection: Arc<Connection>,
    pub(super) asked_at: Moment,
}

impl<'a> Ask<'a> {
    /// `encoded` is of this question to this server; its reply wakes `waker`, until the first poll.
    pub(super) fn begin(
        hold: &'a Hold,
        server: usize,
        question: &'a Question<'a>,
        encoded: &mut EncodedCommand<'a>,
        waker: &Waker,
    ) -> Self {
        let stage = match put_now(hold, server, question, encoded, waker) {
            Ok(Some(call)) => Stage::Sent(call),
            Ok(None) => Stage::Aside(Box::pin(put_later(hold, server, question))),
            Err(reason) => Stage::Unsent(Some(reason)),
        };
        Self { hold, server, question, stage }
    }

    /// The same of a question that was answered already, but for what the answer leads to.
    pub(super) fn resume(
        hold: &'a Hold,
        server: usize,
        question: &'a Question<'a>,
        unsettled: Unsettled,
    ) -> Self {
        let stage = Stage::Aside(Box::pin(resume(hold, server, question, unsettled)));
        Self { hold, server, question, stage }
    }

    /// Its reply is all that has to be waited for.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent(_))
    }

    /// From when on its connection counts the time that it may take, if nothing else is waited for.
    pub(super) fn timed_from(&self) -> Option<Moment> {
        match &self.stage {
            Stage::Sent(call) => call.timed_from(),
            _ => None,
        }
    }

    /// What there is to say where it is not waited for any longer. That is no fault of the server's:
    /// its breaker hears nothing of it.
    pub(super) fn cut(&self) -> Answered {
        let now = clock::now();
        if let Stage::Sent(call) = &self.stage {
            return Answered::late(call.asked_at(), now.since(call.asked_at()));
        }
        let binding = self.hold.binding(self.server);
        let why = match binding.connection() {
            // Whether anything was sent is not known: it is given back as if it had been.
            Some(_) => Reason::Unanswered,
            None => Reason::NoConnection(
                binding.node.connection_now(binding.lane()).err().unwrap_or(OpenError::Connecting),
            ),
        };
        Answered { answer: Answer::Failed(Box::new(why)), asked_at: None, answered_at: now }
    }

    /// The release is seen through without anybody waiting for it.
    pub(super) fn leave_owed(self, pointless_at: Moment) {
        let Stage::Sent(call) = self.stage else { return };
        let participant = &self.hold.participants[self.server];
        let again = Redelivery::new(pointless_at, participant.binding().is_unanswered);
        if call.leave_owed(participant.slot, again, self.hold.core.backlog().counted()) {
            participant.binding().is_released = true;
        }
    }

    /// What the reply comes to, or what else has to be waited for.
    fn take(
        &self,
        reply: Result<Frame, Reason>,
        connection: &Arc<Connection>,
        asked_at: Moment,
    ) -> Result<Answered, Aside<'a>> {
        let Self { hold, server, question, .. } = *self;
        let settled = |replied| Box::pin(settle(hold, server, question, replied, Some(asked_at)));
        let answer = match reply {
            Ok(frame) => match (question.read)(&frame) {
                Some(Answer::Taken) if question.whose.is_some() => {
                    return Err(settled(Ok(Replied::plainly(frame, Arc::clone(connection)))));
                }
                answer => understood(connection, answer),
            },
            Err(Reason::Refused(error)) => return Err(settled(Err(Reason::Refused(error)))),
            Err(reason) => Err(reason),
        };
        if question.is_vote {
            note_vote(hold, server, answer.as_ref());
        }
        Ok(conclude(hold, server, answer, Some(asked_at)))
    }
}

impl Future for Ask<'_> {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        if let Stage::Sent(call) = &mut self.stage {
            let outcome = ready!(Pin::new(&mut *call).poll(context));
            let (reply, asked_at) = (read_reply(call, outcome), call.asked_at());
            let Stage::Sent(call) = &self.stage else { unreachable!("it was sent") };
            match self.take(reply, call.connection(), asked_at) {
                Ok(answered) => return Poll::Ready(answered),
                Err(aside) => self.stage = Stage::Aside(aside),
            }
        }
        let Self { hold, server, stage, .. } = &mut *self;
        match stage {
            Stage::Aside(aside) => aside.as_mut().poll(context),
            Stage::Unsent(reason) => {
                let reason = reason.take().expect("it is not polled after it was ready");
                Poll::Ready(conclude(hold, *server, Err(reason), None))
            }
            Stage::Sent(_) => unreachable!("its reply was read above"),
        }
    }
}

/// Sends the question if nothing has to be waited for.
fn put_now<'a>(
    hold: &Hold,
    server: usize,
    question: &Question<'a>,
    encoded: &mut EncodedCommand<'a>,
    waker: &Waker,
) -> Result<Option<Call<'a>>, Reason> {
    let participant = &hold.participants[server];
    let mut binding = participant.binding();
    if question.is_vote {
        admit(hold, &binding)?;
    }
    binding.follow(hold.place_of(participant), participant.slot);
    let connection = match binding.connection() {
        Some(connection) => connection,
        None => match binding.node.connection_now(binding.lane()) {
            Ok(connection) => {
                binding.take(Arc::clone(&connection));
                connection
            }
            Err(_) if waits_for_connection(hold, participant) => return Ok(None),
            Err(error) => return Err(Reason::NoConnection(error)),
        },
    };
    if question.is_vote {
        binding.node.check(binding.lane()).map_err(Reason::Refusal)?;
    }
    let Some(call) = Call::begin_now(&connection, encoded, waker) else { return Ok(None) };
    binding.ask(question.is_vote);
    call.map(Some).map_err(Reason::NoReply)
}

/// Whether the server may be asked for a vote of this owner's.
fn admit(hold: &Hold, binding: &Binding) -> Result<(), Reason> {
    if !hold.core.is_single() {
        binding.node.gate().admit().map_err(Reason::BreakerOpen)?;
    }
    // What was asked on a connection that has ended is never asked again by the same owner.
    if binding.is_unbound() { Err(Reason::NoConnection(OpenError::Connecting)) } else { Ok(()) }
}

/// Whether a server that is away is waited for: among several it is a vote that is missing.
fn waits_for_connection(hold: &Hold, participant: &Participant) -> bool {
    hold.core.is_single() || hold.place_of(participant).directory().is_some()
}

/// Sends the question once it can be, and reads the answer.
async fn put_later(hold: &Hold, server: usize, question: &Question<'_>) -> Answered {
    let mut asked_at = None;
    let replied = reply_later(hold, server, question, &mut asked_at).await;
    settle(hold, server, question, replied, asked_at).await
}

async fn reply_later(
    hold: &Hold,
    server: usize,
    question: &Question<'_>,
    asked_at: &mut Option<Moment>,
) -> Result<Replied, Reason> {
    let participant = &hold.participants[server];
    let bound = bind(hold, participant, question).await;
    let (node, connection) = bound.map_err(Reason::NoConnection)?;
    {
        let mut binding = participant.binding();
        if question.is_vote {
            node.check(binding.lane()).map_err(Reason::Refusal)?;
        }
        binding.ask(question.is_vote);
    }
    ask(question.command(server), &connection, false, asked_at).await
}

/// The connection that the hold is on while it lives, else the lane's next. Where the server was dialled in vain,
/// a caller of one try is told why, and the next dial goes on; a connection that has just been lost is waited
/// for until its first redial has ended.
async fn bind(
    hold: &Hold,
    participant: &Participant,
    question: &Question<'_>,
) -> Result<(Arc<Node>, Arc<Connection>), OpenError> {
    let (node, lane, bound) = {
        let binding = participant.binding();
        // As it was admitted: its connection may have ended since.
        if question.is_vote && binding.is_unbound() {
            return Err(OpenError::Connecting);
        }
        (Arc::clone(&binding.node), binding.lane(), binding.connection())
    };
    if let Some(connection) = bound {
        return Ok((node, connection));
    }
    // Where its server may be another by now, that is looked up while it is waited for.
    if hold.place_of(participant).directory().is_some() {
        return Box::pin(reach(hold, participant)).await;
    }
    if let (Limit::Try(_), Err(error)) = (question.limit, node.connection_now(lane)) {
        if !matches!(error, OpenError::Connecting) {
            node.want(lane);
            // A caller that asks again and again is not to keep the dial from its runtime.
            yield_now().await;
            return Err(error);
        }
    }
    let connection = node.connection(lane).await?;
    participant.binding().take(Arc::clone(&connection));
    Ok((node, connection))
}

/// What a reply comes to: a refusal is followed to wherever it leads, and a holder asked for.
/// What is rare is on the heap, so that a crowd that waits for room does not carry it.
async fn settle(
    hold: &Hold,
    server: usize,
    question: &Question<'_>,
    replied: Result<Replied, Reason>,
    mut asked_at: Option<Moment>,
) -> Answered {
    let replied = match replied {
        Err(Reason::Refused(error)) => {
            let command = question.command(server);
            follow(hold, server, command, error, NOT_NOW_FOR, &mut asked_at).await
        }
        replied => replied,
    };
    let read = match (replied, question.apart) {
        (Err(Reason::Refused(error)), Some(apart)) if error.code() == Code::Apart => {
            let asked = ask_apart(hold, server, apart, NOT_NOW_FOR);
            let (answer, counts_from) = asked.await;
            asked_at = Some(counts_from);
            answer
        }
        (replied, _) => replied.and_then(|replied| replied.read(question.read)),
    };
    if question.is_vote {
        note_vote(hold, server, read.as_ref());
    }
    let answer = match (read, question.whose) {
        (Ok(Answer::Taken), Some(whose)) => Box::pin(holder(hold, server, whose)).await,
        (read, _) => read,
    };
    conclude(hold, server, answer, asked_at)
}

/// Sees a question through that was answered already; with the script itself, where the server lacked it.
async fn resume(
    hold: &Hold,
    server: usize,
    question: &Question<'_>,
    Unsettled { frame, connection, asked_at }: Unsettled,
) -> Answered {
    let command = question.command(server);
    let read = |frame: Frame| match frame.error() {
        Some(text) => Err(Reason::Refused(command.refusal(text))),
        None => Ok(Replied::plainly(frame, Arc::clone(&connection))),
    };
    let is_to_be_sent = |error: &ServerError, was_sent: bool| {
        error.code() == Code::Again || error.code() == Code::NoScript && !was_sent
    };
    let (mut replied, mut was_sent) = (read(frame), false);
    while matches!(&replied, Err(Reason::Refused(error)) if is_to_be_sent(error, was_sent)) {
        replied = match send_whole(&connection, command) {
            Ok(reply) => reply.await.map_err(Reason::NoReply).and_then(read),
            Err(failure) => Err(Reason::NoReply(failure)),
        };
        was_sent = true;
    }
    settle(hold, server, question, replied, Some(asked_at)).await
}

/// What a vote comes to whose reply decides, or failed.
pub(super) fn judge_vote(
    hold: &Hold,
    server: usize,
    answer: Result<Answer, Reason>,
    asked_at: Moment,
) -> Answered {
    note_vote(hold, server, answer.as_ref());
    conclude(hold, server, answer, Some(asked_at))
}

/// Asks whose the lock is.
async fn holder(hold: &Hold, server: usize, whose: Command<'_>) -> Result<Answer, Reason> {
    ask_one(hold, server, whose, NOT_NOW_FOR).await?.read(Answer::of_holder)
}

/// What the server has said when it was asked for the lease, if it has answered.
fn note_vote(hold: &Hold, server: usize, answer: Result<&Answer, &Reason>) {
    if let Ok(_) | Err(Reason::Refused(_) | Reason::Unsettled(_)) = answer {
        let mut binding = hold.binding(server);
        binding.is_unanswered = false;
        binding.is_granted |= answer.is_ok_and(Answer::is_grant);
        if matches!(answer, Err(Reason::Refused(error)) if error.ran_nothing()) {
            binding.note_not_run();
        }
    }
}

/// What is made known of an answer, whatever it is.
fn conclude(
    hold: &Hold,
    server: usize,
    answer: Result<Answer, Reason>,
    asked_at: Option<Moment>,
) -> Answered {
    if let Err(Reason::NoConnection(_) | Reason::Refusal(_)) = &answer {
        hold.place_of(&hold.participants[server]).look_again();
    }
    let answered_at = clock::now();
    if !hold.core.is_single() {
        note(&hold.binding(server).node, answer.as_ref().err(), answered_at);
    }
    let answer = answer.unwrap_or_else(|reason| Answer::Failed(Box::new(reason)));
    Answered { answer, asked_at, answered_at }
}

/// Lets the server's breaker know whether it answered.
pub(crate) fn note(node: &Node, failure: Option<&Reason>, now: Moment) {
    match failure {
        Some(Reason::NoReply(_) | Reason::NoConnection(_)) => {
            node.gate().note_failure(&node.endpoint().address, now);
        }
        // It was not asked.
        Some(Reason::BreakerOpen(_) | Reason::Refusal(_)) => {}
        _ => node.gate().note_answer(),
    }
}
