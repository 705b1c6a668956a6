//! Waiting for a lock that another holds.
//!
//! In this process, one at a time asks the servers: the first in the line. It asks over connections
//! on which the servers tell of changes to what was read, so that it sleeps until there is one;
//! where they do not, it sleeps for a while that grows. A lock that this process gives back goes
//! straight to the first in the line, wherever that one is in all this.
//!
//! A wait is a loop of turns. A turn puts a few questions at most ([`Waiter::ask`]), and there is no
//! way from one to the next but through [`Waiter::pay`], which sees to the caller's limits and to
//! the pause that the retry policy wants: whatever servers answer, they are asked no faster.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::acquire_mode::{AcquireMode, Taking, Waiting};
use super::attempt::{Bid, Refused, attempt_aside, shut_down};
use super::claim::Claim;
use super::core::{Lead, patience};
use super::engine::Engine;
use super::fingerprint::rank;
use super::lease::Lease;
use super::lines::{Ticket, Turn};
use super::names::Names;
use super::order::Wish;
use super::outlook::Outlook;
use super::participant::Lanes;
use super::race::{First, any, race};
use super::round::Round;
use crate::clock;
use crate::error::Error;
use crate::policy::{Next, Rest, RetryState, Setback, Turns};
use crate::server::watch::Watch;

/// Who is far from its turn lets the others go first when all are woken: the least that a timer
/// can wait.
const STAND_BACK: Duration = Duration::from_millis(1);
/// Who has not asked in all its wait looks once before the end, so that its error can say who holds
/// the lock: with so much of the wait left, as a part of it.
const LAST_LOOK_SHARE: u32 = 8;

/// Waits in the line for its lock, after a first attempt was `refused`, if there was one.
///
/// # Cancel safety
///
/// When the future is dropped, its place goes to the next one, and what was granted is given back.
pub(super) async fn wait(
    engine: &Arc<Engine>,
    wish: &Wish,
    patience: RetryState,
    refused: Option<Refused>,
) -> Result<Lease, Error> {
    Waiter::of_last(engine, wish, &mut Outlook::new(patience), None).run(refused).await
}

pub(super) struct Waiter<'a> {
    engine: &'a Arc<Engine>,
    wish: &'a Wish,
    outlook: &'a mut Outlook,
    /// The owner that has all locks of the wish but the last, if this one has them already.
    part: Option<&'a [u8]>,
    ticket: Option<Ticket>,
    turns: Turns,
    lead: Option<Lead>,
    /// Servers that lost the holder's lease (others name the holder): to begin with them would disturb
    /// all who watch them, again and again.
    forgetful: Vec<usize>,
    watches: Vec<Watch>,
    /// Attempts in a row that a slow server kept open: each next one is given twice the time.
    overtaken: u32,
    /// Others know of it: it is a newcomer no longer.
    has_come: bool,
}

/// What became of one turn.
enum Asked {
    Granted(Lease),
    Refused(Refused),
    /// Something came meanwhile that changes what to ask.
    Interrupted,
    /// A slow server keeps the attempt open; what stood in the way before.
    Overtaken(Setback),
}

impl<'a> Waiter<'a> {
    /// For all locks of a wish, in no line: they are free together, or they are not.
    pub(super) fn of_all(
        engine: &'a Arc<Engine>,
        wish: &'a Wish,
        outlook: &'a mut Outlook,
    ) -> Self {
        Self {
            engine,
            wish,
            outlook,
            part: None,
            ticket: None,
            turns: Turns::default(),
            lead: None,
            forgetful: Vec::new(),
            watches: Vec::new(),
            overtaken: 0,
            has_come: false,
        }
    }

    /// For the last lock of a wish, in its line, with the others if there are any, which `part` has.
    pub(super) fn of_last(
        engine: &'a Arc<Engine>,
        wish: &'a Wish,
        outlook: &'a mut Outlook,
        part: Option<&'a [u8]>,
    ) -> Self {
        let last = &wish.names[wish.names.len() - 1];
        let ticket = engine.lines().join(last, &wish.order, outlook.limit(), part.is_none());
        Self { part, ticket: Some(ticket), ..Self::of_all(engine, wish, outlook) }
    }

    /// # Cancel safety
    ///
    /// As [`wait`].
    pub(super) async fn run(mut self, refused: Option<Refused>) -> Result<Lease, Error> {
        match refused {
            // It asks again at once, where the server will tell of the holder's end.
            Some(refused) if matches!(refused.setback, Setback::Held(_)) => {
                self.consider(refused, false)?;
            }
            Some(refused) => self.rest(refused, false).await?,
            None => {}
        }
        loop {
            let (refused, is_counted) = match self.turn() {
                Turn::Closed => return Err(shut_down(self.wish)),
                Turn::Failed(failing) => return Err(failing.error(self.wish)),
                Turn::NotYet => {
                    self.wait_for_turn().await?;
                    continue;
                }
                Turn::Handed(lock) => match lock.await {
                    Ok(granted) => return Ok(Lease::begin(self.engine, granted)),
                    Err(refused) => {
                        self.ticket.iter().for_each(Ticket::rejoin);
                        (refused, false)
                    }
                },
                Turn::First => match self.ask().await {
                    Asked::Granted(lease) => return Ok(lease),
                    Asked::Refused(refused) => (refused, true),
                    Asked::Interrupted => continue,
                    Asked::Overtaken(setback) => {
                        let pause = self.pause(setback, false)?;
                        self.pay(pause).await?;
                        continue;
                    }
                },
            };
            self.rest(refused, is_counted).await?;
        }
    }

    fn turn(&self) -> Turn {
        match &self.ticket {
            Some(ticket) => ticket.turn(),
            None if self.engine.is_shut_down() => Turn::Closed,
            None => Turn::First,
        }
    }

    /// Waits until there is something to find in the line. Who knows of no holder when the end of
    /// its wait is near looks once who it is.
    async fn wait_for_turn(&mut self) -> Result<(), Error> {
        let Some(ticket) = &self.ticket else { return Ok(()) };
        let Some(left) = self.outlook.patience.left(clock::now()) else {
            ticket.called().await;
            return Ok(());
        };
        let reserve = match &self.outlook.known {
            None => (left / LAST_LOOK_SHARE).min(self.engine.command_timeout()),
            Some(_) => Duration::ZERO,
        };
        if timeout(left - reserve, ticket.called()).await.is_ok() {
            return Ok(());
        }
        if reserve.is_zero() {
            return Err(self.outlook.out_of_time(self.wish));
        }
        let looked = attempt_aside(self.claim(Lanes::Shared), self.bid(AcquireMode::LOOK));
        if let First::One(Err(refused)) = race(looked, ticket.called()).await {
            self.outlook.known = (!refused.round.is_empty()).then_some(refused);
        }
        Ok(())
    }

    fn claim(&self, lanes: Lanes) -> Claim {
        Claim::with(self.engine.core(), self.wish.names.clone(), &self.wish.order, lanes, self.part)
    }

    fn bid(&self, mode: AcquireMode) -> Bid {
        let (is_fenced, lead) = (self.wish.order.is_fenced, self.lead.clone());
        Bid { is_fenced, is_fair: false, mode, lead, limit: self.outlook.limit() }
    }

    /// Asks the servers for the lock, as the first in the line: a newcomer takes it unless others wait
    /// for it, a waiter far from its turn looks before it takes. Each comes once at most, in this order.
    async fn ask(&mut self) -> Asked {
        let mut taking = self.taking();
        loop {
            // While servers fail there is nothing to be told of.
            if self.has_come || self.outlook.known.is_none() {
                self.begin_to_watch();
            }
            let claim = self.claim(Lanes::Watching);
            let attempted = attempt_aside(claim, self.bid(self.mode(taking)));
            let attempted = race(attempted, self.overtaken());
            let refused = match race(attempted, self.interrupted()).await {
                First::One(First::One(Ok(granted))) => {
                    return Asked::Granted(Lease::begin(self.engine, granted));
                }
                First::One(First::One(Err(refused))) => refused,
                First::One(First::Other(setback)) => {
                    self.overtaken += 1;
                    return Asked::Overtaken(setback);
                }
                First::Other(()) => return Asked::Interrupted,
            };
            match self.step(taking, &refused.round).filter(|next| *next > taking) {
                Some(next) => taking = next,
                None => return Asked::Refused(refused),
            }
        }
    }

    /// Waits until it is time to ask all servers anew, where one that is slow keeps the attempt open:
    /// until others tell of a change to what they said, or, where they tell of none, for some of their
    /// round trips. A slow server whose vote is needed has twice the time in each next attempt.
    async fn overtaken(&self) -> Setback {
        let known = match &self.outlook.known {
            Some(known) if !self.engine.is_single() => known,
            _ => return pending().await,
        };
        let patience = patience(known.round.slowest_answer());
        sleep(patience.saturating_mul(1 << self.overtaken.min(16))).await;
        if !matches!(known.setback, Setback::Held(_)) {
            any(self.watches.iter().map(Watch::stirred)).await;
        }
        known.setback
    }

    /// How to begin a turn.
    fn taking(&self) -> Taking {
        if !self.has_come {
            Taking::Turn
        } else if self.turns.looks_first() {
            Taking::Look
        } else {
            Taking::Take
        }
    }

    /// How to go on within a turn, after an answer that asks for it.
    fn step(&mut self, taking: Taking, round: &Round) -> Option<Taking> {
        match taking {
            Taking::Turn => {
                self.turns.queued(round.queued()?);
                self.has_come = true;
                Some(self.taking())
            }
            Taking::Look => round.is_free().then_some(Taking::Take),
            Taking::Take => None,
        }
    }

    /// Sees whether there is to be a next turn after a refusal, and pays its pause.
    async fn rest(&mut self, refused: Refused, is_counted: bool) -> Result<(), Error> {
        let rest = self.consider(refused, is_counted)?;
        self.pay(rest).await
    }

    /// The one way from a turn to the next.
    async fn pay(&mut self, rest: Rest) -> Result<(), Error> {
        race(self.interrupted(), sleep(rest.least)).await;
        self.sleep(rest.most - rest.least).await;
        if self.outlook.patience.is_over(clock::now()) {
            Err(self.outlook.out_of_time(self.wish))
        } else {
            Ok(())
        }
    }

    /// How long to rest after a refusal; or the error that ends the wait.
    fn consider(&mut self, mut refused: Refused, is_counted: bool) -> Result<Rest, Error> {
        self.overtaken = 0;
        let is_news = self.learn(&refused, is_counted);
        let is_watched = |server: usize| refused.hold.binding(server).is_watched();
        if let Setback::Held(frees_in) = refused.setback {
            if !self.watches.is_empty() && refused.round.refused_by().any(is_watched) {
                refused.setback = Setback::Watched(frees_in);
            }
        }
        let setback = refused.setback;
        // What was cut short by the limit says less than what a server said before.
        if self.outlook.known.is_none() || !refused.round.is_cut {
            self.outlook.known = Some(refused);
        }
        self.pause(setback, is_news)
    }

    fn pause(&mut self, setback: Setback, is_news: bool) -> Result<Rest, Error> {
        match self.outlook.patience.after(setback, is_news, clock::now(), clock::random_bits()) {
            Next::Rest(rest) => Ok(rest),
            Next::OutOfTime => Err(self.outlook.out_of_time(self.wish)),
            Next::GiveUp => {
                let error = self.outlook.error(self.wish, None);
                self.tell_others(&error, setback);
                Err(error)
            }
        }
    }

    /// Ends the wait of every waiter behind this one that the same failure would end.
    fn tell_others(&self, error: &Error, setback: Setback) {
        let failed_for = match setback {
            Setback::Hopeless => Duration::MAX,
            _ => self.outlook.patience.failing_for(clock::now()),
        };
        if let Some(ticket) = self.ticket.as_ref().filter(|_| error.is_no_quorum()) {
            ticket.fail_all(error.report(), failed_for);
        }
    }

    /// From here on the servers are to tell of changes to the locks that others have.
    fn begin_to_watch(&mut self) {
        let names = &self.wish.names[..];
        let awaited = if self.part.is_some() { &names[names.len() - 1..] } else { names };
        let nodes = awaited.iter().flat_map(|names| self.engine.nodes_for(names));
        nodes.for_each(|node| node.want(node.watch_lane()));
        if self.watches.is_empty() {
            let watch = |names: &Names| self.engine.watchers().watch(names.lock());
            self.watches = awaited.iter().map(watch).collect();
        }
        self.watches.iter().for_each(Watch::rearm);
    }

    fn mode(&self, taking: Taking) -> AcquireMode {
        let waiting = if self.turns.is_counted() { Waiting::Counted } else { Waiting::Uncounted };
        AcquireMode { taking, waiting }
    }

    /// Keeps what a refusal says of others, among whom this one `is_counted`. Whether it is news:
    /// another holder than before, or a line where there was none.
    fn learn(&mut self, refused: &Refused, is_counted: bool) -> bool {
        let round = &refused.round;
        if let Some((holder, waiting)) = round.holder() {
            self.has_come = true;
            let others = waiting.saturating_sub(u64::from(is_counted));
            let is_known = |server: &usize| !self.forgetful.contains(server);
            self.forgetful.extend(round.free_at.filter(is_known));
            let lock = self.wish.names[0].lock();
            let lead = || self.engine.leader(lock, round.slowest_answer(), &self.forgetful);
            // One server's word of a holder hides that the others do not serve.
            self.lead = matches!(refused.setback, Setback::Held(_)).then(lead).flatten();
            self.turns.refused(rank(holder.owner.as_bytes(), ""), others, is_counted)
        } else if let Some(others) = round.queued() {
            self.has_come = true;
            self.turns.queued(others);
            !is_counted
        } else {
            false
        }
    }

    /// Sleeps until the time is over, a server tells of a change, or there is news in the line.
    async fn sleep(&self, delay: Duration) {
        let stirred = any(self.watches.iter().map(Watch::stirred));
        let woken = race(self.called(), stirred);
        if let First::One(First::Other(())) = race(woken, sleep(delay)).await {
            self.engine.meter().note_woken();
            if self.turns.is_far() {
                race(self.called(), sleep(STAND_BACK)).await;
            }
        }
    }

    /// Waits for what ends a turn, or a rest, whatever servers say.
    async fn interrupted(&self) {
        match &self.ticket {
            Some(ticket) => ticket.interrupted().await,
            None => self.engine.closed().await,
        }
    }

    async fn called(&self) {
        match &self.ticket {
            Some(ticket) => ticket.called().await,
            None => self.engine.closed().await,
        }
    }
}
