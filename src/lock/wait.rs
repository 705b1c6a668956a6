//! Waiting for a lock that another holds.
//!
//! In this process, one at a time asks the servers: the first in the line. It asks over connections
//! on which the servers tell of changes to what was read, so that it sleeps until there is one;
//! where they do not, it sleeps for a while that grows. A lock that this process gives back goes
//! straight to the first in the line, wherever that one is in all this.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::acquire::{Refused, failed, next, shut_down};
use super::acquirer::attempt_aside;
use super::claim::Claim;
use super::core::{Core, Lead};
use super::fingerprint::rank;
use super::lease::Lease;
use super::lines::{Lines, Ticket, Turn};
use super::manner::{Manner, Taking, Waiting};
use super::order::Wish;
use super::post::Lanes;
use super::race::{First, race};
use crate::clock;
use crate::error::Error;
use crate::policy::{Patience, Setback, Turns};
use crate::server::watch::Watch;

/// Who is far from its turn lets the others go first when all are woken: the least that a timer
/// can wait.
const STAND_BACK: Duration = Duration::from_millis(1);

/// Waits in the line for its lock, after a first attempt was `refused`, if there was one.
///
/// # Cancel safety
///
/// When the future is dropped, its place goes to the next one, and what was granted is given back.
pub(super) async fn wait(
    core: &Arc<Core>,
    wish: &Wish,
    patience: Patience,
    refused: Option<Refused>,
) -> Result<Lease, Error> {
    let ticket = match &wish.names[..] {
        [names] => Some(Lines::join(core, names, &wish.order)),
        // Several at once wait in no line: they are free together, or they are not.
        _ => None,
    };
    let mut waiter = Waiter {
        core,
        wish,
        patience,
        ticket,
        turns: Turns::default(),
        lead: None,
        forgetful: Vec::new(),
        watch: None,
        has_asked: false,
    };
    if let Some(refused) = &refused {
        waiter.learn(refused, false);
    }
    waiter.run().await
}

struct Waiter<'a> {
    core: &'a Arc<Core>,
    wish: &'a Wish,
    patience: Patience,
    ticket: Option<Ticket>,
    turns: Turns,
    lead: Option<Lead>,
    /// Servers that had the lock free while others named its holder: they have lost its lease, and to
    /// begin with them would only disturb all who watch them, the holder too, again and again.
    forgetful: Vec<usize>,
    watch: Option<Watch>,
    has_asked: bool,
}

/// What became of one question.
enum Asked {
    Granted(Lease),
    /// The lock is free.
    Free,
    /// To be tried again after that time, or when the servers tell of a change.
    TryIn(Duration),
    /// Too few servers vote: what one of them tells changes nothing.
    TryAfter(Duration),
    Failed(Error),
    /// Something came meanwhile that changes what to ask.
    Interrupted,
}

impl Waiter<'_> {
    async fn run(mut self) -> Result<Lease, Error> {
        let mut is_free = false;
        loop {
            match self.turn() {
                Turn::Closed => return Err(shut_down(self.wish)),
                Turn::Failed(report) => return Err(failed(self.wish, report)),
                Turn::Handed(lock) => match lock.await {
                    Ok(lease) => return Ok(lease),
                    Err(refused) => {
                        self.learn(&refused, false);
                        self.ticket.iter().for_each(Ticket::rejoin);
                    }
                },
                Turn::NotYet => {
                    if self.wait_for_turn().await.is_none() {
                        return self.ask_last().await;
                    }
                }
                Turn::First => match self.ask(is_free).await {
                    Asked::Granted(lease) => return Ok(lease),
                    Asked::Failed(error) => return Err(error),
                    Asked::Free => {
                        is_free = true;
                        continue;
                    }
                    Asked::Interrupted => {}
                    Asked::TryIn(delay) => self.sleep(delay).await,
                    Asked::TryAfter(delay) => {
                        race(self.called(), sleep(delay)).await;
                    }
                },
            }
            is_free = false;
        }
    }

    fn turn(&self) -> Turn {
        match &self.ticket {
            Some(ticket) => ticket.turn(),
            None if self.core.is_shut_down() => Turn::Closed,
            None => Turn::First,
        }
    }

    /// None when the wait is over first.
    async fn wait_for_turn(&self) -> Option<()> {
        let ticket = self.ticket.as_ref()?;
        match self.patience.left(clock::now()) {
            None => ticket.called().await,
            Some(left) => tokio::time::timeout(left, ticket.called()).await.ok()?,
        }
        Some(())
    }

    /// Asks once at the end of a wait in which it was never the first.
    async fn ask_last(&mut self) -> Result<Lease, Error> {
        let claim = self.claim(Lanes::Shared);
        match attempt_aside(claim, self.wish.order.is_fenced, Manner::TAKE, None).await {
            Ok(lease) => Ok(lease),
            Err(refused) => Err(match next(self.wish, &mut self.patience, &refused) {
                Err(error) => error,
                Ok(_) => shut_down(self.wish),
            }),
        }
    }

    fn claim(&self, lanes: Lanes) -> Claim {
        Claim::new(self.core, self.wish.names.clone(), &self.wish.order, lanes)
    }

    /// Asks the servers once, as the first in the line; to take the lock, if it `is_free` by all
    /// that is known.
    async fn ask(&mut self, is_free: bool) -> Asked {
        self.begin_to_watch();
        let manner = self.manner(is_free);
        let claim = self.claim(Lanes::Watching);
        let attempted = attempt_aside(claim, self.wish.order.is_fenced, manner, self.lead.clone());
        let outcome = match &self.ticket {
            None => attempted.await,
            Some(ticket) => match race(attempted, ticket.interrupted()).await {
                First::One(outcome) => outcome,
                First::Other(()) => return Asked::Interrupted,
            },
        };
        let mut refused = match outcome {
            Ok(lease) => return Asked::Granted(lease),
            Err(refused) => refused,
        };
        self.learn(&refused, true);
        if refused.round.is_free() {
            return Asked::Free;
        }
        if refused.round.queued().is_some() {
            return Asked::Interrupted;
        }
        let is_watched = |server: usize| refused.hold.seat(server).is_watched();
        if let Setback::Held(frees_in) = refused.setback {
            if self.watch.is_some() && refused.round.refused_by().any(is_watched) {
                refused.setback = Setback::Watched(frees_in);
            }
        }
        match next(self.wish, &mut self.patience, &refused) {
            Ok(delay) => match refused.setback {
                Setback::Failing | Setback::Quarantined(_) => Asked::TryAfter(delay),
                _ => Asked::TryIn(delay),
            },
            Err(error) => {
                self.tell_others(&error, refused.setback);
                Asked::Failed(error)
            }
        }
    }

    /// Ends the wait of those who need not ask to know that the servers fail them too.
    fn tell_others(&self, error: &Error, setback: Setback) {
        let failed_for = match setback {
            Setback::Hopeless => Duration::MAX,
            _ => self.patience.failing_for(clock::now()),
        };
        if let Some(ticket) = self.ticket.as_ref().filter(|_| error.is_no_quorum()) {
            ticket.fail_all(error.report(), failed_for);
        }
    }

    /// From here on the servers are to tell of changes to the lock.
    fn begin_to_watch(&mut self) {
        let (core, [names]) = (self.core, &self.wish.names[..]) else { return };
        core.nodes_for(names).for_each(|node| node.want(node.watch_lane()));
        let watch = self.watch.get_or_insert_with(|| core.watchers().watch(names.lock()));
        watch.rearm();
    }

    fn manner(&self, is_free: bool) -> Manner {
        let taking = if !self.has_asked {
            Taking::Turn
        } else if self.turns.looks_first() && !is_free {
            Taking::Look
        } else {
            Taking::Take
        };
        let waiting = if self.turns.is_counted() { Waiting::Counted } else { Waiting::Uncounted };
        Manner { taking, waiting }
    }

    /// Keeps what a refusal says of others, among whom this one `is_counted`.
    fn learn(&mut self, refused: &Refused, is_counted: bool) {
        let round = &refused.round;
        if let Some((holder, waiting)) = round.holder() {
            let others = waiting.saturating_sub(u64::from(is_counted));
            self.turns.refused(rank(holder.owner.as_bytes(), ""), others, is_counted);
            let is_news = |server: &usize| !self.forgetful.contains(server);
            self.forgetful.extend(round.free_at.filter(is_news));
            let lock = self.wish.names[0].lock();
            self.lead = self.core.leader(lock, round.slowest_answer(), &self.forgetful);
        } else if let Some(others) = round.queued() {
            self.turns.queued(others);
        }
        self.has_asked = true;
    }

    /// Sleeps until the time is over, a server tells of a change, or there is news in the line.
    async fn sleep(&self, delay: Duration) {
        let stirred = async {
            match &self.watch {
                Some(watch) => watch.stirred().await,
                None => std::future::pending().await,
            }
        };
        let woken = race(self.called(), stirred);
        if let First::One(First::Other(())) = race(woken, sleep(delay)).await {
            self.core.meter().note_woken();
            if self.turns.is_far() {
                race(self.called(), sleep(STAND_BACK)).await;
            }
        }
    }

    async fn called(&self) {
        match &self.ticket {
            Some(ticket) => ticket.called().await,
            None => self.core.closed().await,
        }
    }
}
