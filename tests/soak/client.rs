//! A client that takes locks, works under them, and ends them in all the ways that there are.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold::{Error, ErrorKind, FailureKind, Guard, Locker};
use leasehold_testing::accounts::Accounts;
use leasehold_testing::leases::Part;
use tokio::time::sleep;

use crate::history::{Answer, At, Claim, Lease, Recorder};
use crate::plan::{Plan, TTL_MS};
use crate::prng::Prng;
use crate::register::{Register, Seen};

/// What all clients share.
pub(crate) struct Stage {
    pub(crate) plan: Arc<Plan>,
    pub(crate) recorder: Recorder,
    /// One for each lock that can be held whole.
    pub(crate) registers: Vec<Register>,
    /// What callers of primitives beside locks were told.
    pub(crate) accounts: Mutex<Accounts>,
    pub(crate) is_over: AtomicBool,
}

pub(crate) fn key(name: usize) -> String {
    format!("soak:{name}")
}

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) locker: Locker,
    pub(crate) stage: Arc<Stage>,
    pub(crate) prng: Prng,
}

/// A lease and its guard.
pub(crate) struct Held {
    guard: Guard,
    lease: Lease,
    ttl: Duration,
    /// Whether it is renewed by itself, and so holds for longer than it was last granted for.
    is_renewed: bool,
    is_lost_early: bool,
}

impl Client {
    pub(crate) async fn run(mut self) {
        while !self.stage.is_over.load(Ordering::Relaxed) {
            if self.stage.plan.has_family && self.prng.percent(40) {
                self.turn_in_family().await;
                continue;
            }
            let name = self.prng.index(self.stage.plan.all());
            self.turn(name).await;
            sleep(self.prng.millis(0..10)).await;
        }
    }

    async fn turn(&mut self, name: usize) {
        let ttl = self.ttl();
        let tries = self.prng.percent(30);
        let (part, request) = self.request(name, tries);
        let request = match tries {
            true => request,
            false => request.wait_at_most(self.prng.millis(0..1000)),
        };
        let is_renewed = self.prng.percent(50);
        let request = if is_renewed { request } else { request.no_renewal() };
        // One label for all: what tells owners apart has to be their ids.
        let request = request.ttl(ttl).label("soak").into_future();
        let polls = if self.prng.percent(12) { self.prng.within(1..8) } else { u64::MAX };
        let begun = self.now();
        let outcome = polled(polls, request).await;
        match outcome {
            None => self.count("acquires cancelled"),
            Some(Err(error)) => self.refused(&error),
            Some(Ok(guard)) => {
                let held = self.begin((name, part), (ttl, is_renewed), begun, guard);
                self.hold(held).await;
            }
        }
    }

    /// The same now and then, so that leases are passed on. Beyond the budget they count as one with those before
    /// them, which cannot be seen from outside.
    fn ttl(&mut self) -> Duration {
        match !self.stage.plan.is_beyond && self.prng.percent(50) {
            true => Duration::from_millis(TTL_MS.end - 1),
            false => self.prng.millis(TTL_MS),
        }
    }

    /// Takes the lock however often it is refused, and gives it back. For when nothing fails.
    pub(crate) async fn take_in_the_end(&mut self, name: usize) {
        let ttl = Duration::from_millis(TTL_MS.start);
        loop {
            let begun = self.now();
            let (part, request) = self.request(name, false);
            match request.ttl(ttl).await {
                Ok(guard) => {
                    let held = self.begin((name, part), (ttl, true), begun, guard);
                    return self.release(held, u64::MAX).await;
                }
                Err(error) => self.refused(&error),
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn begin(
        &self,
        (name, part): (usize, Part),
        (ttl, is_renewed): (Duration, bool),
        begun: At,
        guard: Guard,
    ) -> Held {
        let granted = self.now();
        self.count("acquisitions");
        let lease = Lease {
            name,
            client: self.number,
            part,
            token: guard.fence().get(),
            begun,
            granted,
            until: granted,
            extended: 0,
            end: "",
        };
        let mut held = Held { guard, lease, ttl, is_renewed, is_lost_early: false };
        self.claim(&mut held, granted);
        held
    }

    /// Notes until when the guard says that it holds, `returned` having been read after the call
    /// that it says so after.
    fn claim(&self, held: &mut Held, returned: At) {
        let now = self.now();
        let remaining = held.guard.remaining();
        if remaining.is_zero() {
            return self.expect_loss(held);
        }
        let until = now + remaining;
        held.lease.until = held.lease.until.max(until);
        // A renewal may have been asked for later than the call returned.
        let returned = if held.is_renewed { self.now() } else { returned };
        // It is counted from `now`, which may be long after `returned`, and says no more then.
        let Lease { name, token, .. } = held.lease;
        let claim = Claim { name, token, returned, ttl: held.ttl, until };
        self.stage.recorder.history().claims.push(claim);
    }

    /// Notes what renewals have added, as far as the guard says so by itself.
    fn look(&self, held: &mut Held) {
        let (now, remaining) = (self.now(), held.guard.remaining());
        if held.is_renewed && !remaining.is_zero() {
            held.lease.until = held.lease.until.max(now + remaining);
        }
    }

    /// Nothing of the lease is left, so its guard has to say that it is lost; unless a renewal came
    /// between the two looks.
    fn expect_loss(&self, held: &Held) {
        let is_renewed = || held.is_renewed && !held.guard.remaining().is_zero();
        if !held.guard.is_lost() && !is_renewed() {
            let Lease { client, token, .. } = held.lease;
            let text =
                format!("client {client}, token {token}: nothing remains, and it is not lost");
            self.stage.recorder.surprise(text);
        }
    }

    pub(crate) async fn hold(&mut self, mut held: Held) {
        for _ in 0..self.prng.index(4) {
            match self.prng.within(0..21) {
                0..=10 => self.work(&mut held).await,
                11..=15 => self.extend(&mut held, u64::MAX).await,
                16..=18 => {
                    let polls = self.prng.within(1..4);
                    self.extend(&mut held, polls).await;
                }
                19 => return self.oversleep(held).await,
                _ => self.keep(&mut held).await,
            }
        }
        match self.prng.within(0..20) {
            0..=11 => self.release(held, u64::MAX).await,
            12..=14 => {
                let polls = self.prng.within(1..4);
                self.release(held, polls).await;
            }
            15..=16 => {
                // The extension is under way when the release is sent.
                self.extend(&mut held, 1).await;
                self.release(held, u64::MAX).await;
            }
            _ => {
                self.look(&mut held);
                let before = self.now();
                let Held { guard, lease, .. } = held;
                drop(guard);
                self.end(lease, before, "dropped");
            }
        }
    }

    /// Reads, thinks, writes.
    async fn work(&mut self, held: &mut Held) {
        let seen = self.read(held);
        sleep(self.prng.millis(0..15)).await;
        if !held.guard.is_lost() {
            self.write(held, seen);
        }
        self.look(held);
    }

    /// The holder of a share reads nothing that is to be written.
    fn read(&self, held: &Held) -> Option<Seen> {
        let Lease { name, part, token, .. } = held.lease;
        (part == Part::Whole).then(|| self.stage.registers[name].read(token))
    }

    fn write(&self, held: &Held, seen: Option<Seen>) {
        let Lease { name, token, .. } = held.lease;
        if seen.is_some_and(|seen| !self.stage.registers[name].increment(token, seen)) {
            self.count("late writes refused by the fence");
        }
    }

    /// Holds the lease for longer than its TTL, by extending it in time where nobody else does.
    async fn keep(&mut self, held: &mut Held) {
        self.count(if held.is_renewed { "leases kept up by renewal" } else { "leases kept up" });
        let end = self.now() + self.prng.millis(300..2500);
        while self.now() < end && !held.guard.is_lost() {
            self.work(held).await;
            sleep(held.ttl / 3).await;
            if held.is_renewed {
                self.look(held);
            } else {
                self.extend(held, u64::MAX).await;
            }
        }
        if held.is_renewed && !held.guard.is_lost() {
            self.count("leases held to the end by renewal");
        }
    }

    /// Reads, pauses until the lease is over, unless it is renewed, and writes without looking.
    async fn oversleep(&mut self, mut held: Held) {
        self.count("clients paused past their lease's first end");
        let Lease { until, .. } = held.lease;
        let seen = self.read(&held);
        sleep(until.saturating_sub(self.now()) + self.prng.millis(0..300)).await;
        if held.guard.remaining().is_zero() {
            self.expect_loss(&held);
        }
        self.look(&mut held);
        self.write(&held, seen);
        if self.prng.percent(50) {
            return self.release(held, u64::MAX).await;
        }
        let before = self.now();
        let Held { guard, lease, .. } = held;
        drop(guard);
        self.end(lease, before, "dropped when over");
    }

    async fn extend(&self, held: &mut Held, polls: u64) {
        let before = self.now();
        let outcome = polled(polls, held.guard.extend()).await;
        let returned = self.now();
        if let Some(outcome) = &outcome {
            self.answer(held, "extend", outcome, returned);
        }
        if held.guard.is_lost() && returned < held.lease.until {
            // It was told so in time, and does not believe in its deadline any more.
            held.lease.until = held.lease.until.min(before);
            held.is_lost_early = true;
            return;
        }
        self.count(match outcome {
            None => "extends cancelled",
            Some(Ok(())) => "extends",
            Some(Err(_)) => "extends failed",
        });
        held.lease.extended += u32::from(matches!(outcome, Some(Ok(()))));
        self.claim(held, returned);
    }

    async fn release(&self, mut held: Held, polls: u64) {
        self.look(&mut held);
        let before = self.now();
        let Held { guard, lease, is_lost_early, .. } = held;
        let outcome = polled(polls, guard.release()).await;
        let returned = self.now();
        let end = match &outcome {
            None => "release cancelled",
            Some(Ok(())) => "released",
            Some(Err(error)) if error.loss().is_some() => "released when lost",
            Some(Err(_)) => "release failed",
        };
        self.count(end);
        if let Some(outcome) = outcome.filter(|_| !is_lost_early) {
            self.answer_of(&lease, "release", &outcome, returned);
        }
        self.end(lease, before, end);
    }

    fn answer(&self, held: &Held, call: &'static str, outcome: &Result<(), Error>, returned: At) {
        if !held.is_lost_early {
            self.answer_of(&held.lease, call, outcome, returned);
        }
    }

    fn answer_of(
        &self,
        lease: &Lease,
        call: &'static str,
        outcome: &Result<(), Error>,
        returned: At,
    ) {
        if let Err(error) = outcome {
            self.stage.recorder.expect_fault(call, error);
        }
        let Lease { name, client, token, begun, until, .. } = *lease;
        let is_lost = outcome.as_ref().is_err_and(|error| error.loss().is_some());
        let answer = Answer { name, client, token, call, since: begun, returned, until, is_lost };
        self.stage.recorder.history().answers.push(answer);
    }

    fn end(&self, mut lease: Lease, before: At, end: &'static str) {
        lease.until = lease.until.min(before);
        lease.end = end;
        self.stage.recorder.history().leases.push(lease);
    }

    pub(crate) fn refused(&self, error: &Error) {
        self.stage.recorder.expect_fault("acquire", error);
        self.count(if error.kind() == ErrorKind::Contended {
            "acquires refused: held"
        } else if error.report().has_failure(FailureKind::RestartQuarantine) {
            "acquires refused: restart quarantine"
        } else if error.is_unknown() {
            "acquires refused: unknown"
        } else if error.kind() == ErrorKind::Unavailable {
            "acquires refused: unavailable"
        } else {
            "acquires refused: otherwise"
        });
    }

    fn now(&self) -> At {
        self.stage.recorder.now()
    }

    fn count(&self, what: &'static str) {
        self.stage.recorder.count(what);
    }
}

/// Polls `future` this many times and drops it then; `None` where that was too few.
pub(crate) async fn polled<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left = left.saturating_sub(1);
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
