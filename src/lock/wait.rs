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
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::acquire_mode::Taking;
use super::attempt::{Attempting, Bid, Refused, shut_down};
use super::claim::Claim;
use super::core::Lead;
use super::engine::Engine;
use super::entrance::Queue;
use super::fingerprint::rank;
use super::lease::Lease;
use super::lines::{Ticket, Turn};
use super::names::Names;
use super::order::Wish;
use super::outlook::Outlook;
use super::participant::Lanes;
use super::queue::{Place, Standing, Stood};
use super::sharing;
use super::turn::Turn as ServerTurn;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::Error;
use crate::policy::{Next, Rest, Setback, patience};
use crate::race::{First, race, timeout};
use crate::server::node::WATCH;
use crate::server::watch::{Watch, any_stirred};

/// The part of its wait that is left when a waiter that has not asked looks once, to name the holder.
const LAST_LOOK_SHARE: u32 = 8;

pub(super) struct Waiter<'a> {
    engine: &'a Arc<Engine>,
    wish: &'a Wish,
    outlook: &'a mut Outlook,
    /// The owners that have the locks of the wish, if they are had already, one by one.
    parts: &'a [&'a [u8]],
    ticket: Option<Ticket>,
    /// Its turn among processes, while all servers are asked.
    server_turn: Option<ServerTurn>,
    /// The holder that refused last, as a number.
    holder: Option<u64>,
    lead: Option<Lead>,
    /// Servers that lost the holder's lease: to begin with them would disturb all that watch them.
    forgetful: Vec<usize>,
    watches: Vec<Watch>,
    /// Attempts in a row that a slow server kept open: each next one is given twice the time.
    overtaken: u32,
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
    /// For all locks of a wish, in no line.
    pub(super) fn of_all(
        engine: &'a Arc<Engine>,
        wish: &'a Wish,
        outlook: &'a mut Outlook,
    ) -> Self {
        Self {
            engine,
            wish,
            outlook,
            parts: &[],
            ticket: None,
            server_turn: None,
            holder: None,
            lead: None,
            forgetful: Vec::new(),
            watches: Vec::new(),
            overtaken: 0,
        }
    }

    /// For the one lock of a wish, in its line if it has one.
    pub(super) fn of_one(
        engine: &'a Arc<Engine>,
        wish: &'a Wish,
        outlook: &'a mut Outlook,
    ) -> Self {
        let (lines, limit) = (engine.lines(), outlook.limit());
        let ticket = wish.line().map(|line| lines.join(line, &wish.order, limit));
        Self { ticket, ..Self::of_all(engine, wish, outlook) }
    }

    /// For all locks of a wish, which these owners have.
    pub(super) fn of_parts(
        engine: &'a Arc<Engine>,
        wish: &'a Wish,
        outlook: &'a mut Outlook,
        parts: &'a [&'a [u8]],
    ) -> Self {
        Self { parts, ..Self::of_all(engine, wish, outlook) }
    }

    /// Waits, after a first attempt was `refused`, if there was one.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, its place goes to the next one, and what was granted is given back.
    pub(super) fn run(self, refused: Option<Refused>) -> BoxFuture<'a, Result<Lease, Error>> {
        Box::pin(self.take_turns(refused))
    }

    async fn take_turns(mut self, refused: Option<Refused>) -> Result<Lease, Error> {
        let due = refused.map(|refused| {
            // It asks again at once, where the server will tell of the holder's end.
            let is_told = matches!(refused.setback, Setback::Held(_));
            self.consider(refused).map(|rest| (!is_told).then_some(rest))
        });
        let mut due = due.transpose()?.flatten();
        loop {
            if let Some(rest) = due.take() {
                self.pay(rest).await?;
            }
            let refused = match self.turn() {
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
                        refused
                    }
                },
                Turn::First => match self.ask().await {
                    Asked::Granted(lease) => return Ok(lease),
                    Asked::Refused(refused) => refused,
                    Asked::Interrupted => continue,
                    Asked::Overtaken(setback) => {
                        due = Some(self.pause(setback, false)?);
                        continue;
                    }
                },
            };
            due = Some(self.consider(refused)?);
        }
    }

    fn turn(&self) -> Turn {
        match &self.ticket {
            Some(ticket) => ticket.place.turn(),
            None if self.engine.is_shut_down() => Turn::Closed,
            None => Turn::First,
        }
    }

    /// Waits until there is something to find in the line. A waiter that knows of no holder when the end of
    /// its wait is near looks once.
    async fn wait_for_turn(&mut self) -> Result<(), Error> {
        let Some(ticket) = &self.ticket else { return Ok(()) };
        let Some(left) = self.outlook.patience.left(clock::now()) else {
            ticket.place.called().await;
            return Ok(());
        };
        let one_look = || (left / LAST_LOOK_SHARE).min(self.engine.command_timeout());
        let reserve = self.outlook.known.as_ref().map_or_else(one_look, |_| Duration::ZERO);
        if timeout(left - reserve, pin!(ticket.place.called())).await.is_ok() {
            return Ok(());
        }
        if reserve.is_zero() {
            return Err(self.outlook.out_of_time(self.wish));
        }
        let looked = Attempting::new(self.claim(Lanes::Shared, None), self.bid(Taking::Look));
        if let First::One(Err(refused)) = race(looked, pin!(ticket.place.called())).await {
            self.outlook.known = (!refused.round.is_empty()).then_some(refused);
        }
        Ok(())
    }

    fn claim(&self, lanes: Lanes, turn: Option<&ServerTurn>) -> Claim {
        let turn = turn.map(ServerTurn::owner);
        let parts: Vec<&[u8]> = self.parts.iter().copied().chain(turn).collect();
        Claim::with(self.engine.core(), self.wish.names.clone(), &self.wish.order, lanes, &parts)
    }

    #[inline(never)]
    fn bid(&self, taking: Taking) -> Bid {
        let lead = self.lead.clone().or_else(|| sharing::leader(self.engine.core(), self.wish));
        let (is_fenced, limit) = (self.wish.order.is_fenced, self.outlook.limit());
        Bid { is_fenced, is_fair: false, taking, lead, turn: None, limit, begun_at: clock::now() }
    }

    /// Asks for the lock as the first in the line: in its queue, or else by one attempt.
    async fn ask(&mut self) -> Asked {
        let mut turn = self.server_turn.take().filter(|turn| !turn.is_over());
        if turn.is_none() {
            let queue = race(pin!(self.queue()), pin!(self.interrupted())).await;
            match queue {
                First::Other(()) => return Asked::Interrupted,
                First::One(None) => {}
                First::One(Some(queue)) => match self.stand(queue).await {
                    Ok(its) => turn = Some(its),
                    Err(Asked::Refused(refused)) if self.does_without(&refused) => {}
                    Err(asked) => return asked,
                },
            }
        }
        self.begin_to_watch();
        let (vote, under) = turn.as_mut().map(ServerTurn::take_vote).unzip();
        let bid = Bid { turn: under, ..self.bid(Taking::Take) };
        let vote = vote.flatten().unwrap_or_else(|| self.claim(Lanes::Watching, turn.as_ref()));
        let mut attempting = Attempting::new(vote, bid);
        let attempted =
            race(race(&mut attempting, pin!(self.overtaken())), pin!(self.interrupted())).await;
        let asked = match attempted {
            First::One(First::One(Ok(granted))) => {
                turn.iter_mut().for_each(|turn| turn.note_granted(&granted));
                Asked::Granted(Lease::begin(self.engine, granted))
            }
            First::One(First::One(Err(refused))) => Asked::Refused(refused),
            First::One(First::Other(setback)) => {
                self.overtaken += 1;
                Asked::Overtaken(setback)
            }
            First::Other(()) => Asked::Interrupted,
        };
        let is_doubtful = matches!(&asked, Asked::Refused(refused) if refused.round.has_failed());
        if let Some(turn) = turn.as_mut().filter(|_| !is_doubtful) {
            attempting.into_claim().into_iter().for_each(|vote| turn.keep_vote(vote));
        }
        self.server_turn = turn;
        asked
    }

    async fn queue(&self) -> Option<Queue> {
        Queue::of(self.engine, self.wish, self.awaited()?, self.outlook, &self.forgetful).await
    }

    /// Whether it asks without a queue where that question was refused: keys that are on two nodes have
    /// none, and of several servers none is waited for that the others can do without.
    fn does_without(&self, refused: &Refused) -> bool {
        let round = &refused.round;
        round.is_apart() || !self.engine.is_single() && !round.is_cut && round.has_failed()
    }

    /// The lock in whose queue it waits: none where it wants several.
    fn awaited(&self) -> Option<&Names> {
        if let [names] = &self.wish.names[..] { Some(names) } else { None }
    }

    /// Waits in the queue at a server, until its turn comes where that is not yet all that it wants.
    async fn stand(&mut self, queue: Queue) -> Result<ServerTurn, Asked> {
        self.begin_to_watch();
        let Some(names) = self.awaited().cloned() else { return Err(Asked::Interrupted) };
        let is_all = self.engine.is_single();
        let was_refused = self.outlook.known.is_some();
        let place = Place { names, is_all, was_refused, queue, limit: self.outlook.limit() };
        let standing = Standing::new(self.engine.core(), self.wish, place, &self.watches);
        let bid = || Bid { lead: None, ..self.bid(Taking::Take) };
        let ask_all = || Attempting::new(self.claim(Lanes::Watching, None), bid());
        Err(match standing.wait(|| self.interrupted(), ask_all).await {
            Stood::Turn(turn) => return Ok(turn),
            Stood::Granted(granted) => Asked::Granted(Lease::begin(self.engine, granted)),
            Stood::Refused(refused, was_answered) => {
                was_answered.then(|| self.outlook.patience.note_answered());
                Asked::Refused(refused)
            }
            Stood::Interrupted => Asked::Interrupted,
        })
    }

    /// Waits until it is time to ask all servers again, where one that is slow keeps the attempt open:
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
            any_stirred(&self.watches).await;
        }
        known.setback
    }

    /// The one way from a turn to the next.
    async fn pay(&mut self, rest: Rest) -> Result<(), Error> {
        race(pin!(self.interrupted()), pin!(sleep(rest.least))).await;
        self.sleep(rest.most - rest.least).await;
        if self.outlook.patience.is_over(clock::now()) {
            Err(self.outlook.out_of_time(self.wish))
        } else {
            Ok(())
        }
    }

    /// How long to rest after a refusal; or the error that ends the wait.
    fn consider(&mut self, mut refused: Refused) -> Result<Rest, Error> {
        self.overtaken = 0;
        let is_news = self.learn(&refused);
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
        let names = &self.wish.names;
        let nodes = names.iter().flat_map(|names| self.engine.nodes_for(names));
        nodes.for_each(|node| node.want(WATCH));
        if self.watches.is_empty() {
            let watch = |it: &Names| self.engine.watchers().watch(it.lock());
            self.watches = names.iter().map(watch).collect();
        }
        self.watches.iter().for_each(Watch::rearm);
    }

    /// Keeps what a refusal says of others. Whether it is news: another holder than before.
    fn learn(&mut self, refused: &Refused) -> bool {
        let round = &refused.round;
        let Some(holder) = round.holder() else { return false };
        let is_known = |server: &usize| !self.forgetful.contains(server);
        self.forgetful.extend(round.free_at.filter(is_known));
        let lock = self.wish.names[0].lock();
        let lead = || self.engine.leader(lock, round.slowest_answer(), &self.forgetful);
        // One server's word of a holder hides that the others do not serve.
        self.lead = matches!(refused.setback, Setback::Held(_)).then(lead).flatten();
        let holder = rank(holder.owner.as_bytes(), "");
        self.holder.replace(holder) != Some(holder)
    }

    /// Sleeps until the time is over, a server tells of a change, or there is news in the line.
    async fn sleep(&self, delay: Duration) {
        let called = pin!(self.called());
        let woken = race(called, any_stirred(&self.watches));
        if let First::One(First::Other(())) = race(woken, pin!(sleep(delay))).await {
            self.engine.meter().note_woken();
        }
    }

    /// Waits for what ends a turn, or a rest, whatever servers say.
    async fn interrupted(&self) {
        match &self.ticket {
            Some(ticket) => ticket.place.interrupted().await,
            None => self.engine.closed().await,
        }
    }

    async fn called(&self) {
        match &self.ticket {
            Some(ticket) => ticket.place.called().await,
            None => self.engine.closed().await,
        }
    }
}
