//! One question put to every server at once, and the verdict on what they answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::asked::{Asked, reply_to};
use super::follow::{NOT_NOW_FOR, follow, reach};
use super::hold::Hold;
use super::order::Replicas;
use super::post::Post;
use super::round::{Answered, Round};
use crate::clock;
use crate::net::connection::Connection;
use crate::net::handshake::OpenError;
use crate::policy::{Moment, Quorum, Verdict};
use crate::server::call::{Call, Command};
use crate::server::node::Node;

/// The connection that the lease is on while it lives, else the lane's next; among several
/// servers, only if it is there already.
async fn take_seat(hold: &Hold, post: &Post) -> Result<(Arc<Node>, Arc<Connection>), OpenError> {
    let (node, lane) = {
        let mut seat = post.seat();
        seat.follow(hold.place_of(post), post.slot);
        if let Some(connection) = seat.connection() {
            return Ok((Arc::clone(&seat.node), connection));
        }
        (Arc::clone(&seat.node), seat.lane)
    };
    // Where its server may be another by now, that is looked up while it is waited for.
    if hold.place_of(post).directory().is_some() {
        if let Ok(connection) = node.connection_now(lane) {
            post.seat().connection = Some(Arc::clone(&connection));
            return Ok((node, connection));
        }
        return Box::pin(reach(hold, post)).await;
    }
    // A lane beside the others is connected once it is wanted: the first to want it waits.
    let connection = if hold.core.is_single() || lane == node.sync_lane() {
        node.connection(lane).await?
    } else {
        node.connection_now(lane)?
    };
    post.seat().connection = Some(Arc::clone(&connection));
    Ok((node, connection))
}

/// What is asked, and how the reply is read.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    /// One for each server, or the same for all.
    pub(super) commands: &'a [Command<'a>],
    pub(super) read: fn(&Frame) -> Option<Answer>,
    /// Whether it asks for a vote, which takes a server that is fit to give one.
    pub(super) is_vote: bool,
    /// Who has to have what a grant wrote before it counts.
    pub(super) awaits: Option<Replicas>,
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
pub(super) async fn ask_all(hold: &Hold, question: Question<'_>, mut round: Round) -> Round {
    if hold.posts.len() == 1 {
        // The same as below, with its one future kept here rather than on the heap.
        let asked = pin!(ask_one(hold, 0, question));
        gather(hold.quorum(), &mut [Some(asked)], &mut round).await;
    } else {
        let mut asked: Vec<_> = round
            .answers
            .iter()
            .enumerate()
            .map(|(server, answer)| {
                answer.is_none().then(|| Box::pin(ask_one(hold, server, question)))
            })
            .collect();
        gather(hold.quorum(), &mut asked, &mut round).await;
    }
    round
}

/// Puts `question` to one server alone.
///
/// # Cancel safety
///
/// As [`ask_all`].
pub(super) async fn ask_one(hold: &Hold, server: usize, question: Question<'_>) -> Answered {
    let mut asked_at = None;
    let answer = match put(hold, server, question, &mut asked_at).await {
        Ok(answer) => answer,
        Err(reason) => Answer::Failed(reason),
    };
    if let Answer::Failed(Reason::NoConnection(_) | Reason::Refusal(_)) = &answer {
        hold.place_of(&hold.posts[server]).look_again();
    }
    let answered_at = clock::now();
    if !hold.core.is_single() {
        let failure = if let Answer::Failed(reason) = &answer { Some(reason) } else { None };
        note(&hold.seat(server).node, failure, answered_at);
    }
    Answered { answer, asked_at, answered_at }
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
    hold: &Hold,
    server: usize,
    question: Question<'_>,
    asked_at: &mut Option<Moment>,
) -> Result<Answer, Reason> {
    let post = &hold.posts[server];
    if question.is_vote {
        admit(hold, post)?;
    }
    let (node, connection) = take_seat(hold, post).await.map_err(Reason::NoConnection)?;
    if question.is_vote {
        node.check(post.seat().lane).map_err(Reason::Refusal)?;
    }
    let command = question.commands[server.min(question.commands.len() - 1)];
    let asked = Asked { command, awaits: question.awaits };
    let sent = asked.send(&connection).await?;
    *asked_at = Some(sent.asked_at());
    if question.is_vote {
        post.seat().is_asked = true;
    }
    let replied = match sent.reply().await {
        // On the heap, so that who is not refused does not carry the room for it.
        Err(Reason::Refused(error)) => {
            Box::pin(follow(hold, server, asked, error, NOT_NOW_FOR, asked_at)).await
        }
        replied => replied,
    };
    let answer = replied.and_then(|replied| replied.read(question.read));
    if question.is_vote {
        post.seat().note_vote(&answer);
    }
    let answer = match answer? {
        (_, Some(shortage)) => return Err(shortage),
        (answer, None) => answer,
    };
    match (answer, question.whose) {
        (Answer::Taken, Some(whose)) => {
            let connection = post.seat().connection().unwrap_or(connection);
            let call = Call::begin(&connection, whose).await.map_err(Reason::NoReply)?;
            Answer::of_holder(&reply_to(call).await?).ok_or(Reason::Unexpected)
        }
        (answer, _) => Ok(answer),
    }
}

/// Whether the server may be asked for a vote of this owner's.
fn admit(hold: &Hold, post: &Post) -> Result<(), Reason> {
    let seat = post.seat();
    if !hold.core.is_single() {
        let mut breaker = seat.node.breaker();
        // Randomness is a system call: it is not asked for where nothing is decided by it.
        if !breaker.is_closed() {
            let admitted = breaker.admit(clock::now(), clock::random_bits());
            admitted.map_err(Reason::BreakerOpen)?;
        }
    }
    // What was asked on a connection that has ended is never asked again by the same owner.
    if seat.is_unseated() { Err(Reason::NoConnection(OpenError::Connecting)) } else { Ok(()) }
}
