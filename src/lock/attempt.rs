//! One attempt at a lock, by one owner.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::acquire_mode::Taking;
use super::alone::Sent;
use super::claim::Claim;
use super::core::Lead;
use super::direct::{Drawing, draw, may_draw, note_seeded};
use super::held::Held;
use super::likely::Fact;
use super::limit::Limit;
use super::names::title;
use super::order::{Seize, Wish};
use super::round::{Answered, Round};
use super::take::Take;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::policy::{Attempt, AttemptAction, Ballot, Conditions, Grant, Moment, Setback};
use crate::stats::Meter;

/// Why one attempt came to nothing.
pub(super) struct Refused {
    pub(super) setback: Setback,
    pub(super) round: Round,
    pub(super) hold: Held,
}

impl Refused {
    /// The error that it is, where there is no other try: because the wait is over, which was this
    /// long, or for another reason.
    pub(super) fn error(&self, wish: &Wish, waited: Option<Duration>) -> Error {
        let kind = match self.setback {
            Setback::Held(_) | Setback::Watched(_) => match wish.order.seize {
                Some(Seize::From(_)) => Kind::Spent,
                _ => Kind::Contended { waited },
            },
            Setback::TooLate => Kind::TooLate,
            Setback::Hopeless => Kind::NoQuorum { waited, is_final: true },
            Setback::Failing | Setback::Quarantined(_) => {
                Kind::NoQuorum { waited, is_final: false }
            }
        };
        Error::new(kind, title(&wish.names), self.round.report(&self.hold))
    }
}

pub(super) fn shut_down(wish: &Wish) -> Error {
    Error::new(Kind::ShutDown, title(&wish.names), Report::default())
}

/// How to ask for a lock, and until when.
pub(super) struct Bid {
    pub(super) is_fenced: bool,
    /// Whether no waiter may be overtaken, at the price of a script.
    pub(super) is_fair: bool,
    pub(super) taking: Taking,
    pub(super) lead: Option<Lead>,
    pub(super) turn: Option<UnderTurn>,
    pub(super) limit: Limit,
    /// Before the first question is put: the lease may count from then (safety rule 2).
    pub(super) begun_at: Moment,
}

/// What an attempt has to know of the turn under which it asks.
#[derive(Clone, Copy)]
pub(super) struct UnderTurn {
    /// The server with the queue has accepted it already: what is proposed has to be larger.
    pub(super) token: u64,
    /// Whether the owner has asked before: servers may have given it what no answer has told of.
    pub(super) is_again: bool,
}

/// A lease that was granted, and that nobody keeps yet.
pub(super) struct Granted {
    pub(super) claim: Claim,
    pub(super) round: Round,
    /// From when on it counts.
    pub(super) asked_at: Moment,
}

/// One attempt: puts the questions that [`Attempt`] asks for, and does what it decides.
///
/// # Cancel safety
///
/// When it is dropped, whatever may have been granted is given back.
pub(super) struct Attempting {
    /// Dropped before the claim, which gives back what may come of it.
    asked: Asked,
    /// None once the lock is granted.
    claim: Option<Claim>,
    attempt: Attempt,
    is_fenced: bool,
    taking: Taking,
    lead: Option<Lead>,
    limit: Limit,
    begun_at: Moment,
    /// What ends the wait for the server that decides alone, where its connection does not.
    timer: Option<BoxFuture<'static, ()>>,
    /// The server that was asked before the others in an earlier round, and found the lock free.
    free_at: Option<usize>,
}

/// What is under way.
enum Asked {
    Nothing,
    Drawing(Drawing),
    Alone(Sent),
    /// On the heap, so that an attempt at one server that serves does not carry the room for it.
    Aside(BoxFuture<'static, Round>),
}

impl Attempting {
    pub(super) fn new(claim: Claim, bid: Bid) -> Self {
        let Bid { is_fenced, is_fair, taking, lead, turn, limit, begun_at } = bid;
        let hold = claim.hold();
        hold.core.meter().note_attempt();
        let is_plain = !is_fenced
            && !is_fair
            && taking != Taking::Look
            && hold.replaces().next().is_none()
            && hold.seize().is_none()
            && hold.names.len() == 1;
        let conditions = Conditions {
            quorum: hold.quorum(),
            term: hold.term,
            servers_choose: hold.is_alone() || !hold.row().is_by_lock,
            succeeds: turn.is_some_and(|turn| turn.is_again) || hold.predecessor().is_some(),
            ends_at: limit.ends_at(),
            round_max: hold.core.command_max(),
        };
        let ballot = (!is_plain).then(|| match turn {
            Some(turn) if !conditions.servers_choose => {
                Ballot::new(clock::wall_micros()).above(turn.token)
            }
            // A reader is told the same by all servers.
            Some(turn) if !hold.is_alone() => Ballot::at(turn.token),
            _ => Ballot::new(clock::wall_micros()),
        });
        let attempt = Attempt::begin(conditions, ballot);
        let (asked, timer, free_at) = (Asked::Nothing, None, None);
        let claim = Some(claim);
        Self { asked, claim, attempt, is_fenced, taking, lead, limit, begun_at, timer, free_at }
    }

    fn hold(&self) -> &Held {
        self.claim.as_ref().expect("an attempt is polled after it was over").hold()
    }

    /// # Panics
    ///
    /// When the attempt is over.
    pub(super) fn meter(&self) -> &Meter {
        self.hold().core.meter()
    }

    /// Its claim, unless the lock was granted.
    pub(super) fn into_claim(mut self) -> Option<Claim> {
        self.claim.take()
    }

    /// Puts the first question.
    fn begin(&mut self, waker: &Waker) {
        let (hold, taking) = (self.hold(), self.taking);
        let draws = self.is_fenced && self.lead.is_none() && may_draw(hold, taking);
        if draws && !self.limit.is_over() {
            if let Some(drawing) = draw(hold, self.begun_at, waker) {
                self.timer = self.limit_timer(drawing.asked_at);
                self.asked = Asked::Drawing(drawing);
                return;
            }
        }
        let lead = self.lead.take();
        self.ask(lead, self.begun_at, waker);
    }

    /// Puts a question at `asked_at`: for the lock as it is, or for one that is another's.
    fn ask(&mut self, lead: Option<Lead>, asked_at: Moment, waker: &Waker) {
        let take = self.take(lead);
        let hold = self.hold();
        if let Some(sent) = take.send(hold, asked_at, waker) {
            self.timer = self.limit_timer(sent.asked_at);
            self.asked = Asked::Alone(sent);
        } else {
            self.asked = Asked::Aside(take.ask(hold.clone(), None));
        }
    }

    fn limit_timer(&self, asked_at: Moment) -> Option<BoxFuture<'static, ()>> {
        let core = &self.hold().core;
        self.limit.timer(core, Some(asked_at), core.command_max())
    }

    fn take(&self, lead: Option<Lead>) -> Take {
        let Self { ref attempt, taking, limit, .. } = *self;
        Take { ballot: attempt.ballot(), taking, lead, limit }
    }

    /// The answers to what was asked, once they decide.
    fn poll_round(&mut self, context: &mut Context<'_>) -> Poll<Round> {
        loop {
            match &mut self.asked {
                Asked::Nothing => unreachable!("a question was put"),
                Asked::Drawing(drawing) => {
                    let Poll::Ready(outcomes) = drawing.poll(context) else {
                        let asked_at = drawing.asked_at;
                        return self.poll_limit(asked_at, context);
                    };
                    let Asked::Drawing(drawing) = &self.asked else { unreachable!("as above") };
                    let judged = drawing.judge(self.hold(), &self.attempt, self.taking, outcomes);
                    if let Some(answered) = judged {
                        return Poll::Ready(Round::of_one(answered));
                    }
                    self.ask(None, clock::now(), context.waker());
                }
                Asked::Alone(sent) => {
                    let Poll::Ready(outcome) = sent.poll(context) else {
                        let asked_at = sent.asked_at;
                        return self.poll_limit(asked_at, context);
                    };
                    let take = self.take(None);
                    let Asked::Alone(sent) = &self.asked else { unreachable!("as above") };
                    match sent.judge(self.hold(), outcome, take.reader()) {
                        Ok(answered) => return Poll::Ready(Round::of_one(answered)),
                        Err(unsettled) => {
                            let aside = take.ask(self.hold().clone(), Some(unsettled));
                            self.asked = Asked::Aside(aside);
                        }
                    }
                }
                Asked::Aside(aside) => return aside.as_mut().poll(context),
            }
        }
    }

    /// Whether the caller's limit ends the wait for a reply to what was asked at `asked_at`.
    fn poll_limit(&mut self, asked_at: Moment, context: &mut Context<'_>) -> Poll<Round> {
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(context));
        let answered = Answered::late(asked_at, clock::now().since(asked_at));
        Poll::Ready(Round::of_one(answered).cut())
    }

    /// Does what the answers to a round lead to: how the attempt ends, unless there is another round.
    fn conclude(&mut self, mut round: Round, waker: &Waker) -> Option<Result<Granted, Refused>> {
        round.free_at = round.free_at.or(self.free_at);
        let is_drawn = matches!(self.asked, Asked::Drawing(_));
        (self.asked, self.timer) = (Asked::Nothing, None);
        let hold = self.claim.as_ref()?.hold();
        let proposal = self.attempt.ballot().map_or(0, Ballot::proposal);
        match self.attempt.ended(&round.tally(hold, proposal), clock::wall_micros) {
            AttemptAction::Ask(_) => {
                self.free_at = round.free_at;
                self.ask(None, clock::now(), waker);
                None
            }
            AttemptAction::Hold(grant) => {
                let Grant { asked_at, answered_at, deadline, token } = grant;
                if !is_drawn && token.is_some_and(|token| self.attempt.believes(token)) {
                    note_seeded(hold, asked_at);
                }
                if round.finds_others() {
                    hold.core.likely().add(hold.name(), Fact::Sought);
                }
                hold.begin(deadline, token.filter(|_| self.is_fenced), answered_at);
                Some(Ok(Granted { claim: self.claim.take()?, round, asked_at }))
            }
            AttemptAction::GiveUp { setback, is_settled } => {
                let claim = self.claim.as_mut()?;
                if is_settled {
                    claim.settle();
                }
                Some(Err(refused(setback, round, claim.hold())))
            }
        }
    }
}

impl Future for Attempting {
    type Output = Result<Granted, Refused>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Asked::Nothing = this.asked {
            this.begin(context.waker());
            // The reply to what was sent just now wakes this task: it need not be looked for.
            if this.timer.is_none() && !matches!(this.asked, Asked::Aside(_)) {
                return Poll::Pending;
            }
        }
        loop {
            let round = ready!(this.poll_round(context));
            if let Some(ended) = this.conclude(round, context.waker()) {
                return Poll::Ready(ended);
            }
        }
    }
}

/// Counts an attempt that came to nothing.
fn refused(setback: Setback, round: Round, hold: &Held) -> Refused {
    let meter = hold.core.meter();
    if round.is_unknown() {
        meter.note_unknown();
    }
    if matches!(setback, Setback::Held(_)) && hold.seize().is_none() {
        meter.note_contended(hold.name());
    }
    Refused { setback, round, hold: hold.clone() }
}
