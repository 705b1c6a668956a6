//! Clients that take locks, work under them, and end them in every possible way.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::history::{At, Claim, Grant, Lease, Part, Rest, Signal};
use super::meddle;
use super::plan::{CONNECT_TIMEOUT, Fault, command_timeout, host, key};
use super::prng::Prng;
use super::register::Register;
use super::world::{World, lock};
use crate::clock::simulated::{Client, elapsed};
use crate::error::Error;
use crate::fencing::Fencing;
use crate::guard::Guard;
use crate::locker::Locker;
use crate::policy::{Loss, Moment};
use crate::ticket::Ticket;

/// Timers go off at whole milliseconds.
const TICKS: Duration = Duration::from_millis(2);
/// Maximum time that a lock stays taken after its grant: less than the wait at the end of a run.
const REST_MAX: Duration = Duration::from_secs(3);
/// The numbers of the locks that are taken together.
const BURST: Range<usize> = 100..106;
/// Percentage of writes that reach the resource late, some far later than their sender's lease.
const WRITES_LATE_PERCENT: u64 = 15;

pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    pub(crate) client: Arc<Client>,
    pub(crate) locker: Locker,
    pub(crate) registers: Arc<Vec<Register>>,
    pub(crate) prng: Prng,
}

enum End {
    Release,
    Drop,
    Lost,
}

/// The holder's knowledge of its lease.
pub(super) struct Held {
    pub(super) name: usize,
    pub(super) token: u64,
    pub(super) ttl: Duration,
    /// The lease's end by the client's clock, at the last look.
    pub(super) deadline: Moment,
    /// The same in true time.
    pub(super) until: At,
}

impl Actor {
    pub(crate) async fn run(mut self) {
        while !self.world.is_over() {
            sleep(self.up_to(self.world.plan.longest_ttl)).await;
            if self.world.plan.has(Fault::Newcomer) && self.prng.percent(8) {
                self.start_anew().await;
            }
            if self.world.plan.has_bursts && self.prng.percent(25) {
                self.burst().await;
                continue;
            }
            if self.world.plan.has_family && self.prng.percent(70) {
                self.turn_in_family().await;
                continue;
            }
            if self.world.plan.has_shares && self.prng.percent(60) {
                self.turn_sharing().await;
                continue;
            }
            match self.world.plan.unfenced() {
                Some(name) if self.prng.percent(50) => self.turn_unfenced(name).await,
                _ => match self.ticket() {
                    Some((name, ticket)) => self.turn_adopting(name, &ticket).await,
                    None => self.turn().await,
                },
            }
        }
    }

    /// A process without any state replaces this one, if it finds enough servers.
    async fn start_anew(&mut self) {
        if let Ok(locker) = connect(Arc::clone(&self.world)).await {
            self.locker = locker;
            self.count("processes");
        }
    }

    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        self.prng.millis(0..u64::try_from(most.as_millis()).expect("it is short") + 1)
    }

    pub(super) fn ttl(&mut self) -> Duration {
        let longest = self.world.plan.longest_ttl;
        if self.world.plan.has_one_ttl {
            return longest;
        }
        let ttl = longest / 4 + self.up_to(longest * 3 / 4);
        Duration::from_millis(u64::try_from(ttl.as_millis()).expect("it is short"))
    }

    pub(super) fn count(&self, what: &'static str) {
        self.world.history().count(what);
    }

    async fn turn(&mut self) {
        let longest = self.world.plan.longest_ttl;
        let name = self.prng.index(self.world.plan.names);
        let ttl = self.ttl();
        let (request, limit) = if self.prng.percent(30) {
            (self.locker.try_lock(key(name)), None)
        } else {
            let most = self.up_to(longest * 2);
            (self.locker.lock(key(name)).wait_at_most(most), Some(most))
        };
        let is_renewed = self.prng.percent(if self.world.plan.has_one_ttl { 90 } else { 60 });
        let request = if is_renewed { request } else { request.no_renewal() };
        let request = request.ttl(ttl);
        let rest = match self.world.plan.has_rests && self.prng.percent(40) {
            true => self.up_to(REST_MAX.min(longest / 2)),
            false => Duration::ZERO,
        };
        let request =
            if rest.is_zero() { request } else { request.hold_at_least(meddle::kept(rest)) };
        let delay = match self.world.plan.has_delays && self.prng.percent(60) {
            true => self.up_to(longest - ttl),
            false => Duration::ZERO,
        };
        let request = request.lock_delay(meddle::asked(delay));
        let is_stealing = self.world.plan.has_steals && self.prng.percent(20);
        let request = if is_stealing { request.steal() } else { request };
        let limit = limit.filter(|_| !is_stealing);
        let patience = if self.prng.percent(15) { self.up_to(longest / 4) } else { Duration::MAX };
        let (begun, stood_still) = (elapsed(), self.client.stood_still());
        let outcome = timeout(patience, request.into_future()).await;
        if self.client.stood_still() == stood_still {
            self.check_limit(limit, elapsed() - begun);
        }
        match outcome {
            Err(_) => self.count("acquires cancelled"),
            Ok(Err(_)) => self.count("acquires refused"),
            Ok(Ok(guard)) => self.hold(guard, (name, ttl, delay), begun, rest).await,
        }
    }

    /// Takes some locks, and drops all of them at once: their releases go out together.
    async fn burst(&mut self) {
        let ttl = self.world.plan.longest_ttl;
        let mut guards = Vec::new();
        for number in BURST {
            let most = self.up_to(ttl / 4);
            let request = self.locker.lock(key(number)).wait_at_most(most).ttl(ttl);
            guards.extend(request.await);
        }
        self.count("bursts");
        sleep(self.up_to(ttl / 20)).await;
    }

    /// A ticket that a client has made; another may have adopted it already.
    fn ticket(&mut self) -> Option<(usize, Ticket)> {
        let mut tickets = lock(&self.world.tickets);
        let place = if tickets.is_empty() { None } else { Some(self.prng.index(tickets.len())) };
        Some(tickets.swap_remove(place?))
    }

    async fn turn_adopting(&mut self, name: usize, ticket: &Ticket) {
        let (ttl, begun) = (self.world.plan.longest_ttl, elapsed());
        match self.locker.adopt(ticket).await {
            Err(_) => self.count("adoptions refused"),
            Ok(guard) => {
                self.count("adoptions");
                self.hold(guard, (name, ttl, Duration::ZERO), begun, Duration::ZERO).await;
            }
        }
    }

    /// Gives the lock to others by a ticket, or by two copies of one.
    async fn pass_on(&mut self, guard: Guard, name: usize, rest: Duration) {
        let within = rest + TICKS * 5 + self.up_to(REST_MAX.min(self.world.plan.longest_ttl / 2));
        match guard.into_ticket(within).await {
            Ok(ticket) => {
                self.count("tickets");
                let copies = 1 + self.prng.index(2);
                let copies = std::iter::repeat_n((name, ticket), copies);
                lock(&self.world.tickets).extend(copies);
            }
            Err(_) => self.count("tickets refused"),
        }
    }

    /// Takes a lock without a token, in one try, and holds it for a while.
    async fn turn_unfenced(&mut self, name: usize) {
        let ttl = self.world.plan.longest_ttl;
        let begun = elapsed();
        let Ok(guard) = self.locker.try_lock(key(name)).unfenced().ttl(ttl).await else {
            return self.count("unfenced acquires refused");
        };
        self.count("unfenced grants");
        let granted = elapsed();
        // In the order of the grants, as tokens would be.
        let token = self.world.history().next_number();
        let (deadline, until) = (Moment::from_nanos(0), granted);
        let mut held = Held { name, token, ttl, deadline, until };
        for _ in 0..=self.prng.index(3) {
            self.look(&guard, &mut held);
            sleep(self.up_to(ttl / 4)).await;
        }
        let until = if guard.is_lost() { held.until.min(elapsed()) } else { elapsed() };
        let client = self.client.number;
        let lease = Lease { name, client, part: Part::Whole, token, begun, granted, until };
        self.world.history().leases.push(lease);
        let _ = guard.release().await;
    }

    /// Safety rule 14: a caller that waits returns by its limit, and one that does not wait within one command's
    /// timeout, by its own clock, give or take a timer's tick or two.
    fn check_limit(&self, limit: Option<Duration>, took: Duration) {
        let command_max = command_timeout(&self.world.plan);
        let most = limit.filter(|limit| !limit.is_zero()).unwrap_or(command_max);
        if took > most + most / 50 + TICKS {
            let text =
                format!("client {} was back after {took:?}, not {most:?}", self.client.number);
            self.world.history().breach("limit", text);
        }
    }

    pub(super) async fn hold(
        &mut self,
        guard: Guard,
        (name, ttl, delay): (usize, Duration, Duration),
        begun: At,
        rest: Duration,
    ) {
        let granted = elapsed();
        let token = guard.fence().get();
        let tenure = self.tenure(&guard, self.grant(name, token));
        let mut held = Held { name, token, ttl, deadline: Moment::from_nanos(0), until: granted };
        self.world.history().note(format!("client {} took {name} as {token}", self.client.number));
        self.count("grants");
        let stood_still = self.client.stood_still();
        let (lost, work) = (meddle::heard(guard.lost(), ttl), self.work(&guard, &mut held));
        let end = tokio::select! {
            biased;
            loss = lost => {
                let _: Loss = loss;
                End::Lost
            }
            end = work => end,
        };
        let ended = elapsed();
        let until = match end {
            End::Lost if self.client.stood_still() > stood_still => held.until.min(ended),
            End::Lost => {
                self.note_signal(&held);
                ended
            }
            // The lease may have ended while this client stood still.
            _ if guard.is_lost() => held.until.min(ended),
            _ => ended,
        };
        self.world.history().note(format!("client {} ends {name} as {token}", self.client.number));
        let client = self.client.number;
        if tenure.is_some() {
            self.count("leases passed on");
        }
        let begun = tenure.unwrap_or(begun);
        let lease = Lease { name, client, part: Part::Whole, token, begun, granted, until };
        self.world.history().leases.push(lease);
        if let Some(Loss::Expired | Loss::Suspended) = guard.loss() {
            self.note_delay(&held, delay);
        }
        // In that case it is released by an extension. A rest begins with the grant, after the wait for it.
        let is_resting = !matches!(end, End::Lost) && elapsed() < granted + rest;
        if let Some(owner) = guard.owner().filter(|_| is_resting) {
            let held = (guard.name().to_vec(), owner);
            self.world.history().questions.note_resting(held, elapsed());
        }
        match end {
            End::Release if self.world.plan.has_tickets && self.prng.percent(40) => {
                self.pass_on(guard, name, rest).await;
            }
            End::Release => match guard.release().await {
                Ok(()) => {
                    self.count("releases");
                    self.note_rest(name, begun, rest);
                }
                Err(_) => self.count("releases unconfirmed"),
            },
            End::Drop => drop(guard),
            End::Lost => self.count("losses"),
        }
    }

    /// When the lease was requested, if another request of this client passed it on with a token set aside.
    fn tenure(&self, guard: &Guard, grant: Grant) -> Option<At> {
        let owner = guard.owner()?;
        self.world.history().questions.tenure(grant, owner)
    }

    /// Notes that a released lock has to stay taken for `rest` after its grant, which came after `begun`;
    /// less the clocks' maximum difference.
    fn note_rest(&self, name: usize, begun: At, rest: Duration) {
        let (from, until) = (elapsed(), begun + rest * 98 / 100);
        if from < until && !self.world.plan.is_beyond {
            self.count("rests");
            self.world.history().rests.push(Rest { name, from, until });
        }
    }

    /// Notes that the lock of a lost lease has to stay taken for `delay`; less the clocks' maximum difference.
    fn note_delay(&self, held: &Held, delay: Duration) {
        if delay.is_zero() {
            return;
        }
        let Held { name, token, until: from, .. } = *held;
        meddle::give_back_lost(&self.world, &self.grant(name, token));
        let mut history = self.world.history();
        history.questions.note_left(&self.grant(name, token));
        if !self.world.plan.is_beyond {
            history.count("delays");
            history.rests.push(Rest { name, from, until: from + delay * 98 / 100 });
        }
    }

    async fn work(&mut self, guard: &Guard, held: &mut Held) -> End {
        self.look(guard, held);
        let mut is_late = false;
        for _ in 0..=self.prng.index(5) {
            if is_late {
                // Its own writes must not overtake one another.
                break;
            }
            let seen = self.registers[held.name].read(held.token);
            // A write is under way for a while, whatever happens to the lease meanwhile.
            is_late = self.prng.percent(WRITES_LATE_PERCENT);
            let delay = if is_late { self.up_to(held.ttl * 2) } else { self.up_to(held.ttl / 50) };
            let (registers, name, token) = (Arc::clone(&self.registers), held.name, held.token);
            let written = tokio::spawn(async move {
                sleep(delay).await;
                registers[name].increment(token, seen);
            });
            if !is_late {
                let _ = written.await;
            }
            sleep(self.up_to(held.ttl / 2)).await;
            self.look(guard, held);
            if self.prng.percent(15) {
                let extended = guard.extend().await;
                self.count(if extended.is_ok() { "extensions" } else { "extensions failed" });
                self.look(guard, held);
            }
        }
        match self.prng.index(10) {
            0..=5 => End::Release,
            6..=8 => End::Drop,
            _ => {
                // It holds on, whatever happens.
                sleep(self.up_to(held.ttl * 2)).await;
                self.look(guard, held);
                End::Drop
            }
        }
    }

    /// Notes the guard's claim.
    pub(super) fn look<F: Fencing>(&self, guard: &Guard<F>, held: &mut Held) {
        let remaining = guard.remaining();
        if remaining.is_zero() {
            return;
        }
        let deadline = self.client.now().after(remaining);
        if deadline < held.deadline {
            let text = format!("lock {}, token {}", held.name, held.token);
            self.world.history().breach("lease shortened", text);
        }
        held.deadline = deadline;
        held.until = held.until.max(elapsed() + self.client.true_span(remaining));
        let Held { name, token, ttl, .. } = *held;
        let mut history = self.world.history();
        let grant = (guard.name().to_vec(), self.grant(name, token).1, self.client.number);
        match history.questions.asked_by(&grant, self.world.plan.quorum) {
            Some(asked_by) => history.claims.push(Claim { name, token, ttl, deadline, asked_by }),
            None => history.breach("granted by nobody", format!("lock {name}, token {token}")),
        }
    }

    fn grant(&self, name: usize, token: u64) -> Grant {
        let is_unfenced = Some(name) == self.world.plan.unfenced();
        (key(name).into_bytes(), if is_unfenced { 0 } else { token }, self.client.number)
    }

    fn note_signal(&self, held: &Held) {
        let Held { name, token, ttl, .. } = *held;
        let mut history = self.world.history();
        if let Some(asked_by) =
            history.questions.asked_by(&self.grant(name, token), self.world.plan.quorum)
        {
            let at = self.client.now();
            history.signals.push(Signal { name, token, ttl, at, asked_by });
        }
    }
}

/// A process that has just started.
pub(crate) async fn connect(world: Arc<World>) -> Result<Locker, Error> {
    let plan = &world.plan;
    let urls: Vec<String> =
        (0..plan.servers).map(|number| format!("redis://{}", host(number))).collect();
    let builder = Locker::builder()
        .nodes(urls)
        .quorum(plan.quorum)
        .ttl(plan.longest_ttl)
        .max_ttl(plan.longest_ttl)
        .command_timeout(command_timeout(plan))
        .connect_timeout(CONNECT_TIMEOUT)
        .restart_quarantine(!plan.is_beyond);
    builder.failover_grace(plan.has_grace).connect().await
}
