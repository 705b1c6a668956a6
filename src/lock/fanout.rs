//! One question put to every server at once, until its answers decide or its limit is over.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Poll, Waker};

use tokio::time::sleep;

use super::ask::{Ask, Unsettled};
use super::hold::Hold;
use super::limit::Limit;
use super::one_or_many::OneOrMany;
use super::question::Question;
use super::round::Round;
use crate::box_future::BoxFuture;
use crate::policy::{Moment, Verdict, patience};

/// What ended the wait for answers.
#[derive(PartialEq)]
enum Ended {
    Decided,
    /// They decide, but for why the lock is not granted; the rest took too long to be waited for.
    Grace,
    /// The question's limit.
    Limit,
}

/// Puts `question` to every server that `round` has no answer of yet, from the caller's task, and
/// returns as soon as the answers decide, or at the question's limit. What comes later is not waited
/// for.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent to every server whose binding has a
/// connection.
pub(super) fn ask_all<'a>(
    hold: &'a Hold,
    question: &'a Question<'a>,
    round: Round,
) -> impl Future<Output = Round> {
    answers(hold, question, round, None)
}

/// The same of the only server, which has answered, but for what its answer leads to.
pub(super) fn ask_on<'a>(
    hold: &'a Hold,
    question: &'a Question<'a>,
    unsettled: Unsettled,
) -> impl Future<Output = Round> {
    let begun = OneOrMany::One([Some(Ask::resume(hold, 0, question, unsettled))]);
    answers(hold, question, Round::new(hold), Some(begun))
}

async fn answers<'a>(
    hold: &'a Hold,
    question: &'a Question<'a>,
    mut round: Round,
    mut asked: Option<OneOrMany<Option<Ask<'a>>>>,
) -> Round {
    if question.limit.is_over() {
        return round.cut();
    }
    let quorum = hold.quorum();
    let (mut timer, mut grace) = (None, None);
    let ended = poll_fn(|context| {
        let is_first = asked.is_none();
        let asked: &mut OneOrMany<_> =
            asked.get_or_insert_with(|| begin_all(hold, question, &round, context.waker()));
        for (asked, answer) in asked.iter_mut().zip(round.answers.iter_mut()) {
            let Some(pending) = asked else { continue };
            // The reply to what was sent just now wakes this task: it need not be looked for.
            if is_first && pending.is_sent() {
                continue;
            }
            if let Poll::Ready(answered) = Pin::new(pending).poll(context) {
                *answer = Some(answered);
                *asked = None;
            }
        }
        round.verdict = round.count(quorum);
        if round.verdict != Verdict::Pending {
            if !question.is_vote || !round.leaves_open_why(quorum) {
                return Poll::Ready(Ended::Decided);
            }
            let rest = || Box::pin(sleep(patience(round.slowest_answer())));
            if grace.get_or_insert_with(rest).as_mut().poll(context).is_ready() {
                return Poll::Ready(Ended::Grace);
            }
        }
        if timer.is_none() {
            let timed_from = asked.iter().flatten().map(Ask::timed_from);
            let last = timed_from.reduce(|one, other| Some(one?.max(other?)));
            timer = timer_for(hold, question, last.flatten());
        }
        let is_over = |timer: &mut BoxFuture<'_, ()>| timer.as_mut().poll(context).is_ready();
        if timer.as_mut().is_some_and(is_over) { Poll::Ready(Ended::Limit) } else { Poll::Pending }
    })
    .await;
    if ended != Ended::Decided {
        let asked = asked.iter_mut().flat_map(|asked| asked.iter_mut());
        for (asked, answer) in asked.zip(round.answers.iter_mut()) {
            if let Some(pending) = asked {
                *answer = Some(pending.cut());
            }
        }
    }
    if ended == Ended::Limit {
        round = round.cut();
    }
    if let Some(owed_until) = question.owed_until {
        let late = asked.iter_mut().flat_map(|asked| asked.iter_mut()).filter_map(Option::take);
        late.for_each(|asked| asked.leave_owed(owed_until(hold)));
    }
    round
}

/// What ends the wait at the question's limit, where nothing else would: a timer costs something,
/// and the connection ends what was sent by itself, the last of which it counts from `timed_from`.
fn timer_for(
    hold: &Hold,
    question: &Question<'_>,
    timed_from: Option<Moment>,
) -> Option<BoxFuture<'static, ()>> {
    if matches!(question.limit, Limit::None) {
        return None;
    }
    question.limit.timer(&hold.core, timed_from, hold.core.command_max())
}

/// Sends the question to every server that has not answered yet, encoded once where it is the same
/// for all. Each reply is to wake `waker`.
fn begin_all<'a>(
    hold: &'a Hold,
    question: &'a Question<'a>,
    round: &Round,
    waker: &Waker,
) -> OneOrMany<Option<Ask<'a>>> {
    let mut encoded = question.encoded(0);
    let servers = round.answers.iter().enumerate();
    servers
        .map(|(server, answer)| {
            if answer.is_some() {
                return None;
            }
            if question.commands.len() > 1 {
                encoded = question.encoded(server);
            }
            Some(Ask::begin(hold, server, question, &mut encoded, waker))
        })
        .collect()
}
