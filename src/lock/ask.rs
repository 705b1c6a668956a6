//! One question put to every server at once, and the verdict on what they answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::core::Core;
use super::round::{Answered, Round};
use crate::clock;
use crate::net::connection::Connection;
use crate::net::handshake::OpenError;
use crate::policy::{Moment, Quorum, Verdict};
use crate::server::call::{Call, Command};
use crate::server::node::Node;

/// Where a lease is with one server: its lane, and the connection that it is on.
pub(super) struct Seat {
    pub(super) lane: usize,
    pub(super) connection: Option<Arc<Connection>>,
    /// It was asked for the lease on that connection, and has not said no.
    pub(super) is_asked: bool,
    /// The server has said that it granted the lease.
    pub(super) is_granted: bool,
}

impl Seat {
    pub(super) fn new(lane: usize) -> Self {
        Self { lane, connection: None, is_asked: false, is_granted: false }
    }

    fn note_vote(&mut self, answer: &Result<Answer, Reason>) {
        match answer {
            Ok(Answer::Granted(_)) => self.is_granted = true,
            // Whether it was carried out is not known.
            Err(Reason::NoReply(_)) => {}
            _ => self.is_asked = false,
        }
    }

    /// The connection that it was on has ended.
    fn is_unseated(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_alive())
    }
}

/// The connection that the lease is on while it lives, else the lane's next; among several
/// servers, only if it is there already.
async fn take_seat(
    core: &Core,
    node: &Node,
    seat: &Mutex<Seat>,
) -> Result<Arc<Connection>, OpenError> {
    let lane = {
        let seat = lock(seat);
        if let Some(connection) = seat.connection.as_ref().filter(|known| known.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        seat.lane
    };
    let connection =
        if core.is_single() { node.connection(lane).await? } else { node.connection_now(lane)? };
    lock(seat).connection = Some(Arc::clone(&connection));
    Ok(connection)
}

fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is asked, and how the reply is read.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) command: Command<'a>,
    pub(super) read: fn(&Frame) -> Option<Answer>,
    /// Whether it asks for a vote, which takes a server that is fit to give one.
    pub(super) is_vote: bool,
    /// What is asked next where the lock is another's and the reply does not say whose.
    pub(super) whose: Option<Command<'a>>,
}

/// Puts `question` to every server that `round` has no answer of yet, from the caller's task, and
/// returns as soon as the answers decide. What comes later is not waited for.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent to every server whose seat has a
/// connection.
pub(super) async fn ask_all(
    core: &Core,
    seats: &[Mutex<Seat>],
    question: Question<'_>,
    mut round: Round,
) -> Round {
    match (core.nodes(), seats) {
        // The same as below, with its one future kept here rather than on the heap.
        ([node], [seat]) => {
            let asked = pin!(ask(core, node, seat, question));
            gather(core.quorum(), &mut [Some(asked)], &mut round).await;
        }
        (nodes, seats) => {
            let mut asked: Vec<_> = nodes
                .iter()
                .zip(seats)
                .zip(round.answers.iter())
                .map(|((node, seat), answer)| {
                    answer.is_none().then(|| Box::pin(ask(core, node, seat, question)))
                })
                .collect();
            gather(core.quorum(), &mut asked, &mut round).await;
        }
    }
    round
}

/// Puts `question` to one server alone.
///
/// # Cancel safety
///
/// As [`ask_all`].
pub(super) async fn ask_one(
    core: &Core,
    seats: &[Mutex<Seat>],
    number: usize,
    question: Question<'_>,
) -> Answered {
    ask(core, &core.nodes()[number], &seats[number], question).await
}

async fn gather<A>(quorum: Quorum, asked: &mut [Option<A>], round: &mut Round)
where
    A: Future<Output = Answered> + Unpin,
{
    round.verdict = poll_fn(|context| {
        for (asked, answer) in asked.iter_mut().zip(round.answers.iter_mut()) {
            let Some(pending) = asked else { continue };
            if let Poll::Ready(answered) = Pin::new(pending).poll(context) {
                *answer = Some(answered);
                *asked = None;
            }
        }
        match round.count(quorum) {
            Verdict::Pending => Poll::Pending,
            decided => Poll::Ready(decided),
        }
    })
    .await;
}

async fn ask(core: &Core, node: &Node, seat: &Mutex<Seat>, question: Question<'_>) -> Answered {
    let mut asked_at = None;
    let answer = match put(core, node, seat, question, &mut asked_at).await {
        Ok(answer) => answer,
        Err(reason) => Answer::Failed(reason),
    };
    let answered_at = clock::now();
    if !core.is_single() {
        let failure = if let Answer::Failed(reason) = &answer { Some(reason) } else { None };
        note(node, failure, answered_at);
    }
    Answered { answer, asked_at, answered_at }
}

/// Lets the server's breaker know whether it answered.
pub(super) fn note(node: &Node, failure: Option<&Reason>, now: Moment) {
    match failure {
        Some(Reason::NoReply(_) | Reason::NoConnection(_)) => {
            node.breaker().note_failure(now, clock::random_bits());
        }
        // It was not asked.
        Some(Reason::BreakerOpen(_) | Reason::Refusal(_)) => {}
        _ => node.breaker().note_answer(),
    }
}

async fn put(
    core: &Core,
    node: &Node,
    seat: &Mutex<Seat>,
    question: Question<'_>,
    asked_at: &mut Option<Moment>,
) -> Result<Answer, Reason> {
    if question.is_vote && !core.is_single() {
        let mut breaker = node.breaker();
        // Randomness is a system call: it is not asked for where nothing is decided by it.
        if !breaker.is_closed() {
            let admitted = breaker.admit(clock::now(), clock::random_bits());
            admitted.map_err(Reason::BreakerOpen)?;
        }
    }
    if question.is_vote && lock(seat).is_unseated() {
        // What was asked on a connection that has ended is never asked again by the same owner.
        return Err(Reason::NoConnection(OpenError::Connecting));
    }
    let connection = take_seat(core, node, seat).await.map_err(Reason::NoConnection)?;
    if question.is_vote {
        node.check(lock(seat).lane).map_err(Reason::Refusal)?;
    }
    let call = Call::begin(&connection, question.command).await.map_err(Reason::NoReply)?;
    *asked_at = Some(call.asked_at());
    lock(seat).is_asked |= question.is_vote;
    let reply = reply_to(call).await;
    let answer = reply.and_then(|reply| (question.read)(&reply).ok_or(Reason::Unexpected));
    if question.is_vote {
        lock(seat).note_vote(&answer);
    }
    let answer = answer?;
    match (answer, question.whose) {
        (Answer::Taken, Some(whose)) => {
            let call = Call::begin(&connection, whose).await.map_err(Reason::NoReply)?;
            Answer::of_holder(&reply_to(call).await?).ok_or(Reason::Unexpected)
        }
        (answer, _) => Ok(answer),
    }
}

pub(super) async fn reply_to(mut call: Call<'_>) -> Result<Frame, Reason> {
    let reply = (&mut call).await.map_err(Reason::NoReply)?;
    match reply.error() {
        Some(text) => Err(Reason::Refused(call.refusal(text))),
        None => Ok(reply),
    }
}
