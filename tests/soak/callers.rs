//! Clients that take shares, run jobs, carry out requests, take tokens, meet at latches and barriers, and are elected.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::election::Election;
use leasehold::{Error, LockRequest};
use leasehold_testing::accounts::{Accounts, Broken, Fair};
use leasehold_testing::leases::Part;
use tokio::time::sleep;

use crate::client::{Client, Stage, key, polled};
use crate::family::{Caller, PARTIES, Scene, accounts, most};
use crate::history::At;
use crate::plan::{CLIENTS, LIMIT, LONGEST_TTL, TTL_MS};

impl Scene for Stage {
    fn now(&self) -> At {
        self.recorder.now()
    }

    /// Not as far as anybody knows.
    fn stood_still(&self) -> Duration {
        Duration::ZERO
    }

    /// This machine may be too busy to drop it at its end, and its renewals are not seen from outside.
    fn leased_until(&self, begun: At, ttl: Duration, now: At) -> At {
        now.min(begun + ttl - ttl / 100 - Duration::from_millis(2))
    }

    fn accounts(&self) -> &Mutex<Accounts> {
        &self.accounts
    }

    fn count(&self, what: &'static str) {
        self.recorder.count(what);
    }

    fn refused(&self, error: &Error) {
        self.recorder.count("callers refused");
        self.recorder.expect_fault("a caller of a primitive", error);
    }
}

impl Client {
    /// For what lock there is of that name: all of it, or a share.
    pub(crate) fn request(&mut self, name: usize, tries: bool) -> (Part, LockRequest) {
        let (locker, key, names) = (&self.locker, key(name), self.stage.plan.names);
        let permits = locker.semaphore(&key, LIMIT);
        match (self.prng.index(10), tries) {
            _ if name > names && tries => (Part::Permit(1), permits.try_acquire(1)),
            _ if name > names => (Part::Permit(1), permits.acquire(1)),
            (0..=6, true) if name == names => (Part::Reader, locker.try_read(key)),
            (0..=6, false) if name == names => (Part::Reader, locker.read(key)),
            (7..=8, false) if name == names => (Part::Whole, locker.write(key)),
            (_, true) => (Part::Whole, locker.try_lock(key)),
            (_, false) => (Part::Whole, locker.lock(key)),
        }
    }

    fn caller(&mut self) -> Caller<Stage> {
        let (scene, locker) = (Arc::clone(&self.stage), self.locker.clone());
        let (servers, prng) = (self.stage.plan.servers, self.prng.fork());
        Caller { scene, locker, servers, longest_ttl: LONGEST_TTL, prng }
    }

    pub(crate) async fn turn_in_family(&mut self) {
        if self.prng.percent(20) {
            return self.turn_campaigning().await;
        }
        let polls = if self.prng.percent(12) { self.prng.within(1..12) } else { u64::MAX };
        let mut caller = self.caller();
        if polled(polls, caller.turn()).await.is_none() {
            self.stage.recorder.count("callers cancelled");
        }
        sleep(self.prng.millis(0..10)).await;
    }

    /// Leads for a while, if it is elected, and may name another before.
    async fn turn_campaigning(&mut self) {
        let election = self.election();
        if self.prng.percent(20) {
            let candidate = candidate(self.prng.index(CLIENTS));
            if let Err(error) = election.nominate(candidate).await {
                self.stage.recorder.expect_fault("nominate", &error);
            }
        }
        let (ttl, limit) = (self.prng.millis(TTL_MS), self.prng.millis(0..1000));
        let priority = u8::try_from(self.prng.index(3)).expect("it is small");
        let campaign = election.campaign(candidate(self.number)).ttl(ttl);
        let campaign = campaign.priority(priority).wait_at_most(limit).into_future();
        let polls = if self.prng.percent(12) { self.prng.within(1..8) } else { u64::MAX };
        let begun = self.stage.recorder.now();
        match polled(polls, campaign).await {
            None => self.stage.recorder.count("campaigns cancelled"),
            Some(Err(error)) => self.refused(&error),
            Some(Ok(leadership)) => {
                self.stage.recorder.count("campaigns won");
                let of = (self.stage.plan.elected(), Part::Whole);
                let held = self.begin(of, (ttl, true), begun, leadership.into_guard());
                self.hold(held).await;
            }
        }
    }

    fn election(&self) -> Election {
        self.locker.elect(key(self.stage.plan.elected()))
    }

    /// For when nothing fails.
    pub(crate) async fn be_served(&mut self) {
        let number = self.number;
        while let Err(error) = self.election().campaign(candidate(number)).await {
            self.refused(&error);
            sleep(self.prng.millis(1..10)).await;
        }
        self.caller().be_served(number).await;
    }
}

fn candidate(client: usize) -> String {
    format!("client-{client}")
}

/// What was told that cannot be; and how much was.
pub(crate) fn broken(stage: &Stage) -> (Vec<Broken>, [(&'static str, usize); 3]) {
    let plan = &stage.plan;
    let forgetful = stage.recorder.history().forgetful.len();
    let fair = Fair {
        keeps_leases: !plan.is_beyond,
        remembers: forgetful <= plan.losses_max(),
        has_even_clocks: true,
    };
    let most = most(plan.servers, CLIENTS, LONGEST_TTL);
    let accounts = accounts(stage);
    let checked = [
        ("checked: runs of slots and attempts at requests", accounts.works.len()),
        ("checked: tokens of limits", accounts.takes.len()),
        ("checked: looks at latches and barriers", accounts.looks.len()),
    ];
    (accounts.broken(fair, &most, PARTIES), checked)
}
