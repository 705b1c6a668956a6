//! Clients that run jobs, carry out requests, take tokens, and meet at latches and barriers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Error;
use leasehold_testing::accounts::{Accounts, Broken, Fair};
use tokio::time::sleep;

use crate::client::{Client, Stage, polled};
use crate::family::{Caller, PARTIES, Scene, accounts, most};
use crate::history::At;
use crate::plan::{CLIENTS, LONGEST_TTL};

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
    fn caller(&mut self) -> Caller<Stage> {
        let (scene, locker) = (Arc::clone(&self.stage), self.locker.clone());
        let (servers, prng) = (self.stage.plan.servers, self.prng.fork());
        Caller { scene, locker, servers, longest_ttl: LONGEST_TTL, prng }
    }

    pub(crate) async fn turn_in_family(&mut self) {
        let polls = if self.prng.percent(12) { self.prng.within(1..12) } else { u64::MAX };
        let mut caller = self.caller();
        if polled(polls, caller.turn()).await.is_none() {
            self.stage.recorder.count("callers cancelled");
        }
        sleep(self.prng.millis(0..10)).await;
    }

    /// For when nothing fails.
    pub(crate) async fn be_served(&mut self) {
        let number = self.number;
        self.caller().be_served(number).await;
    }
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
