//! Waiting in the queue of a lock at its server, by one owner, until the server hands the lock over.
//!
//! What may be believed is decided by [`WaiterState`]; here are the questions and what is listened to.
//! The owner stays on one connection: when that ends, or the server knows the owner no more, another
//! owner enters the queue again. A claim that is dropped leaves the queue, and hands on what it was
//! granted meanwhile.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use super::answer::Answer;
use super::attempt::{Attempting, Granted, Refused};
use super::claim::Claim;
use super::core::Core;
use super::entrance::Queue;
use super::hold::Hold;
use super::likely::Fact;
use super::limit::Limit;
use super::names::Names;
use super::one_or_many::OneOrMany;
use super::order::Wish;
use super::round::{Answered, Round};
use super::turn::Turn;
use crate::clock;
use crate::policy::{
    ASK_ALL_EACH, Ballot, Moment, QueueAnswer, Retry, Setback, Shown, Tick, Verdict, WaiterAction,
    WaiterEvent, WaiterState, beat,
};
use crate::race::{First, race, timeout};
use crate::server::node::WATCH;
use crate::server::watch::{Watch, any_stirred};

/// How one owner's wait ended.
pub(super) enum Stood {
    Granted(Granted),
    /// It is its turn: the server keeps the lock for the claim's owner until then, while all are asked.
    Turn(Turn),
    /// Its question failed, the owner is known no more, or the caller's limit is over.
    Refused(Refused, WasAnswered),
    /// Something came meanwhile that changes what to ask.
    Interrupted,
}

/// Whether the server has answered before that the owner waits.
pub(super) type WasAnswered = bool;

/// Where an owner waits, and for how long.
pub(super) struct Place {
    pub(super) names: Names,
    /// Whether the lock is all that is wanted: else it is the owner's turn to ask for all.
    pub(super) is_all: bool,
    /// Whether another was found in the way before.
    pub(super) was_refused: bool,
    pub(super) queue: Queue,
    pub(super) limit: Limit,
}

/// See the module's documentation.
pub(super) struct Standing<'a> {
    claim: Claim,
    queue: Queue,
    limit: Limit,
    is_fenced: bool,
    is_all: bool,
    pushes: Watch,
    watches: &'a [Watch],
    state: WaiterState,
    retry: Retry,
    /// Questions since the server last was to tell of what happens.
    untold: u32,
    /// It knows of nobody before it.
    is_first: bool,
    /// When the holder's lease ends, as far as is known.
    frees_at: Option<Moment>,
    asked_at: Moment,
    /// When all servers were asked last.
    all_asked_at: Moment,
    /// What the server said last of the holder.
    known: Option<Round>,
}

/// What a waiter listens to between two questions.
enum Heard {
    Push(u64),
    /// It is time for a question.
    Due,
    /// It is time to ask all servers.
    AllDue,
    LimitOver,
    Interrupted,
}

impl<'a> Standing<'a> {
    pub(super) fn new(core: &Arc<Core>, wish: &Wish, place: Place, watches: &'a [Watch]) -> Self {
        let Place { names, is_all, was_refused, queue, limit } = place;
        if was_refused {
            core.likely().add(names.lock(), Fact::Sought);
        }
        let claim = Claim::queued(core, OneOrMany::One([names]), &wish.order);
        let pushes = core.watchers().await_push(claim.hold().owner.value());
        core.meter().note_attempt();
        Self {
            claim,
            queue,
            limit,
            is_fenced: wish.order.is_fenced,
            is_all,
            pushes,
            watches,
            state: WaiterState::begin(),
            retry: wish.retry,
            untold: 0,
            is_first: false,
            frees_at: None,
            asked_at: clock::now(),
            all_asked_at: clock::now(),
            known: None,
        }
    }

    /// # Cancel safety
    ///
    /// When the future is dropped, the owner leaves the queue, and what it was granted goes on to the
    /// next one.
    pub(super) async fn wait<F: Future<Output = ()>>(
        mut self,
        interrupted: impl Fn() -> F,
        ask_all: impl Fn() -> Attempting,
    ) -> Stood {
        let mut enters = true;
        loop {
            let due = if enters { Heard::Due } else { self.pay(&interrupted).await };
            let (mut action, mut token) = match due {
                Heard::Push(token) => self.pushed(token),
                Heard::Interrupted => return Stood::Interrupted,
                Heard::Due | Heard::AllDue | Heard::LimitOver => {
                    match self.ask(enters, &interrupted).await {
                        Ok(action) => action,
                        Err(stood) => return self.end(stood),
                    }
                }
            };
            enters = false;
            while action == WaiterAction::Wait {
                match self.listen(&interrupted).await {
                    Heard::Push(pushed) => (action, token) = self.pushed(pushed),
                    Heard::Due => action = WaiterAction::Ask,
                    Heard::AllDue => {
                        if let Some(stood) = self.ask_all(ask_all(), &interrupted).await {
                            return stood;
                        }
                    }
                    Heard::LimitOver => return self.end(None),
                    Heard::Interrupted => return Stood::Interrupted,
                }
            }
            let is_token = Ballot::new(clock::wall_micros()).accepts(token, true);
            match action {
                WaiterAction::Hold { counts_from } if is_token => {
                    return self.hold(counts_from, token);
                }
                WaiterAction::ComeBack => {
                    self.claim.settle();
                    return self.end(None);
                }
                // What names no token is no grant: the server is asked again.
                WaiterAction::Ask | WaiterAction::Wait | WaiterAction::Hold { .. } => {}
            }
        }
    }

    /// Waits out the pause of the retry policy since the last question, so that no server can have the
    /// waiter ask faster, unless something else comes.
    async fn pay<F: Future<Output = ()>>(&self, interrupted: impl Fn() -> F) -> Heard {
        let next = self.asked_at.after(self.retry.delay(0, clock::random_bits()));
        let pause = self.limit.cap(next.since(clock::now()));
        if pause.is_zero() {
            return Heard::Due;
        }
        let (stirred, interrupted) = (pin!(self.pushes.stirred()), pin!(interrupted()));
        match race(race(stirred, interrupted), pin!(sleep(pause))).await {
            First::One(First::One(token)) => Heard::Push(token),
            First::One(First::Other(())) => Heard::Interrupted,
            First::Other(()) => Heard::Due,
        }
    }

    fn pushed(&mut self, token: u64) -> (WaiterAction, u64) {
        self.pushes.rearm();
        self.claim.hold().core.meter().note_woken();
        (self.happens(WaiterEvent::Pushed { token }), token)
    }

    fn happens(&mut self, event: WaiterEvent) -> WaiterAction {
        self.state.happens(event, self.claim.hold().term, clock::now())
    }

    /// Puts a question, and judges the answer, or a push that comes before it.
    async fn ask<F: Future<Output = ()>>(
        &mut self,
        enters: bool,
        interrupted: impl Fn() -> F,
    ) -> Result<(WaiterAction, u64), Option<Result<Round, ()>>> {
        self.watches.iter().for_each(Watch::rearm);
        self.asked_at = clock::now();
        let question = Box::pin(self.queue.ask(self.claim.hold(), enters, self.limit));
        let asked = race(race(question, pin!(self.pushes.stirred())), pin!(interrupted())).await;
        let round = match asked {
            First::Other(()) => return Err(Some(Err(()))),
            First::One(First::Other(token)) => return Ok(self.pushed(token)),
            First::One(First::One(round)) => round,
        };
        let answered = round.answers.get(self.queue.server).and_then(Option::as_ref);
        let Some(answered @ Answered { answer, asked_at: Some(asked_at), .. }) = answered else {
            return Err(Some(Ok(round)));
        };
        if answered.is_late() && !round.is_cut && self.has_place() {
            return Ok((WaiterAction::Ask, 0));
        }
        let asked_at = *asked_at;
        let (answer, token) = match answer {
            Answer::Granted(token) => (QueueAnswer::Yours, token.unwrap_or(0)),
            Answer::Held { holder, counter, waiting, clock } => {
                self.is_first = *waiting == 0;
                self.frees_at = holder.remaining.map(|frees_in| asked_at.after(frees_in));
                let shown = Shown { counter: *counter, clock: *clock, asked_at };
                (QueueAnswer::Waiting { shown: Some(shown) }, 0)
            }
            Answer::Queued { waiting } => {
                (self.is_first, self.frees_at) = (*waiting == 0, None);
                (QueueAnswer::Waiting { shown: None }, 0)
            }
            Answer::NotOwned => (QueueAnswer::Gone, 0),
            _ => return Err(Some(Ok(round))),
        };
        if matches!(answer, QueueAnswer::Waiting { .. }) {
            let hold = self.claim.hold();
            hold.core.meter().note_contended(hold.name());
            let likely = hold.core.likely();
            likely.add(hold.name(), Fact::Sought);
            if !self.is_first {
                likely.add(hold.name(), Fact::Queued(Tick::of(asked_at)));
            }
            self.untold = if self.is_told() { 0 } else { self.untold.saturating_add(1) };
            if self.untold > 0 {
                self.hear_elsewhere();
            }
            self.known = Some(round);
        }
        Ok((self.happens(WaiterEvent::Answered { answer, asked_at }), token))
    }

    /// Whether a late answer costs nothing: the entry lives, and its connection. Of several servers none is
    /// waited for that the others can do without.
    fn has_place(&self) -> bool {
        let hold = self.claim.hold();
        let is_connected = hold.binding(self.queue.server).connection().is_some();
        hold.core.is_single() && is_connected && self.state.has_place(hold.term, clock::now())
    }

    /// Whether the server that answered last pushes to the channel of the entry, and tells of changes.
    fn is_told(&self) -> bool {
        let binding = self.claim.hold().binding(self.queue.server);
        let on = binding.connection().filter(|_| binding.is_watched());
        on.is_some_and(|connection| self.queue.channel.is_of(&connection))
    }

    /// The lock's slot has moved: the next question names a channel at the server that answered now.
    fn hear_elsewhere(&mut self) {
        let node = Arc::clone(&self.claim.hold().binding(self.queue.server).node);
        node.want(WATCH);
        if let Some(channel) = node.channel() {
            self.queue.channel = channel;
        }
    }

    /// Asks all servers, until the one with the queue is due to be asked: it may keep a lease that the others
    /// have lost.
    async fn ask_all<F: Future<Output = ()>>(
        &mut self,
        mut attempting: Attempting,
        interrupted: impl Fn() -> F,
    ) -> Option<Stood> {
        self.all_asked_at = clock::now();
        let (pushed, interrupted) = (pin!(self.pushes.stirred()), pin!(interrupted()));
        let asked = race(race(&mut attempting, pushed), interrupted);
        match timeout(self.due().since(self.all_asked_at), asked).await {
            Ok(First::One(First::One(Ok(granted)))) => Some(Stood::Granted(granted)),
            Ok(First::Other(())) => Some(Stood::Interrupted),
            _ => None,
        }
    }

    /// When the server with the queue is asked next.
    fn due(&self) -> Moment {
        let Hold { term, core, .. } = &**self.claim.hold();
        let beat = beat(*term, core.is_single());
        // A waiter that is told of nothing asks again and again.
        let rest = match self.untold.checked_sub(1) {
            Some(asked) => self.retry.delay(asked, clock::random_bits()).min(beat),
            None => beat,
        };
        let due = self.asked_at.after(rest);
        // A server may be late to tell of a key's end.
        self.frees_at.filter(|_| self.is_first).map_or(due, |frees_at| due.min(frees_at))
    }

    /// When all servers are asked next: by the first in the queue of several.
    fn all_due(&self) -> Option<Moment> {
        let asks_all = self.is_first && !self.claim.hold().core.is_single();
        asks_all.then(|| self.all_asked_at.after(ASK_ALL_EACH))
    }

    async fn listen<F: Future<Output = ()>>(&self, interrupted: impl Fn() -> F) -> Heard {
        let (due, all_due, limit) = (self.due(), self.all_due(), self.limit.ends_at());
        let ends_at = all_due.into_iter().chain(limit).fold(due, Moment::min);
        let (pushed, interrupted) = (pin!(self.pushes.stirred()), pin!(interrupted()));
        let stirred = pin!(async {
            any_stirred(self.watches).await;
            if !self.is_first && self.claim.hold().is_connected() {
                std::future::pending::<()>().await;
            }
        });
        let timer = pin!(sleep(ends_at.since(clock::now())));
        match race(race(pushed, interrupted), race(timer, stirred)).await {
            First::One(First::One(token)) => Heard::Push(token),
            First::One(First::Other(())) => Heard::Interrupted,
            First::Other(_) if self.limit.is_over() => Heard::LimitOver,
            First::Other(First::One(())) if all_due == Some(ends_at) && due > ends_at => {
                Heard::AllDue
            }
            First::Other(First::One(())) => Heard::Due,
            First::Other(First::Other(())) => {
                self.claim.hold().core.meter().note_woken();
                Heard::Due
            }
        }
    }

    fn hold(self, counts_from: Moment, token: u64) -> Stood {
        let now = clock::now();
        let hold = self.claim.hold().clone();
        if !self.is_all {
            let until = hold.term.deadline(counts_from);
            return Stood::Turn(Turn::new(self.claim, self.queue.server, token, until));
        }
        let round = Round::told(&hold, Some(token), now);
        let mut binding = hold.binding(0);
        (binding.is_granted, binding.is_unanswered) = (true, false);
        drop(binding);
        let token = self.is_fenced.then_some(token).filter(|token| *token != 0);
        hold.begin(hold.term.deadline(counts_from), token, now);
        Stood::Granted(Granted { claim: self.claim, round, asked_at: counts_from })
    }

    /// The end of a wait without the lock: by a round that failed, by something else that came, or by
    /// the limit, with what is known.
    fn end(self, ended: Option<Result<Round, ()>>) -> Stood {
        let (hold, was_answered) = (self.claim.hold().clone(), self.known.is_some());
        let round = match ended {
            Some(Err(())) => return Stood::Interrupted,
            Some(Ok(round)) => round,
            None => {
                let round = self.known.unwrap_or_else(|| Round::new(&hold));
                // Of several servers, what one says of a holder hides that the others do not serve.
                Round { is_cut: round.is_cut || !hold.core.is_single(), ..round }
            }
        };
        let setback = match round.verdict {
            Verdict::Pending => Setback::Failing,
            _ => round.setback(&hold),
        };
        Stood::Refused(Refused { setback, round, hold }, was_answered)
    }
}
