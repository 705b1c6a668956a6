//! Clients that run jobs, carry out requests, take tokens, meet at latches and barriers, and are elected.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use super::actor::Actor;
use super::checks::timer_slack;
use super::family::{Caller, PARTIES, Scene, most};
use super::history::{At, Breach};
use super::plan::{Fault, key};
use super::world::{World, lock};
use crate::clock::simulated::{Client, elapsed};
use crate::error::{Error, ErrorKind, FailureKind};
use crate::locker::Locker;
use crate::support::accounts::{Accounts, Fair};

/// A client at which callers of primitives are.
struct Post {
    world: Arc<World>,
    client: Arc<Client>,
}

impl Scene for Post {
    fn now(&self) -> At {
        elapsed()
    }

    fn stood_still(&self) -> Duration {
        self.client.stood_still()
    }

    /// It is dropped at its end, as far as a timer can.
    fn leased_until(&self, _: At, ttl: Duration, now: At) -> At {
        now.saturating_sub(timer_slack(ttl))
    }

    fn accounts(&self) -> &Mutex<Accounts> {
        &self.world.accounts
    }

    fn count(&self, what: &'static str) {
        let mut history = self.world.history();
        history.note(format!("client {}: {what}", self.client.number));
        history.count(what);
    }

    fn refused(&self, error: &Error) {
        self.count("callers refused");
        // A stray error may say anything.
        let is_misuse =
            error.kind() == ErrorKind::Misuse || error.report().has_failure(FailureKind::Misuse);
        if is_misuse && !self.world.plan.has(Fault::Stray) {
            self.world.history().breach("misuse", error.to_string());
        }
    }
}

fn caller(actor: &mut Actor) -> Caller<Post> {
    let (world, client) = (Arc::clone(&actor.world), Arc::clone(&actor.client));
    Caller {
        servers: world.plan.servers,
        longest_ttl: world.plan.longest_ttl,
        scene: Arc::new(Post { world, client }),
        locker: actor.locker.clone(),
        prng: actor.prng.fork(),
    }
}

impl Actor {
    pub(super) async fn turn_in_family(&mut self) {
        if self.prng.percent(20) {
            return self.turn_campaigning().await;
        }
        let longest = self.world.plan.longest_ttl;
        let patience = if self.prng.percent(15) { self.up_to(longest / 2) } else { Duration::MAX };
        let mut caller = caller(self);
        if timeout(patience, caller.turn()).await.is_err() {
            self.count("callers cancelled");
        }
    }

    /// Leads for a while, if it is elected, and may name another before.
    async fn turn_campaigning(&mut self) {
        let name = self.world.plan.elected().expect("there are elections");
        let (ttl, limit) = (self.ttl(), self.up_to(self.world.plan.longest_ttl * 2));
        let election = self.locker.elect(key(name));
        let candidate = |client: usize| format!("client-{client}");
        if self.prng.percent(30) {
            let _ = election.nominate(candidate(self.prng.index(3))).await;
        }
        let campaign = election.campaign(candidate(self.client.number)).ttl(ttl);
        let priority = u8::try_from(self.prng.index(3)).expect("it is small");
        let (campaign, begun) = (campaign.priority(priority).wait_at_most(limit), elapsed());
        let Ok(leadership) = campaign.into_future().await else {
            return self.count("campaigns lost");
        };
        self.count("campaigns won");
        let held = (name, ttl, Duration::ZERO);
        self.hold(leadership.into_guard(), held, begun, Duration::ZERO).await;
    }
}

/// Checks that all callers are served once all is well.
pub(super) async fn all_are_served(world: &Arc<World>, locker: &Locker, limit: Duration) {
    let Some(name) = world.plan.elected() else { return };
    let client = Client::current().expect("a client asks");
    let number = client.number;
    let led = locker.elect(key(name)).campaign("last").wait_at_most(limit);
    if let Err(error) = led.await {
        let text = format!("client {number} is not elected: {error}");
        world.history().breach("liveness", text);
    }
    let prng = world.prng().fork();
    let scene = Arc::new(Post { world: Arc::clone(world), client });
    let (servers, longest_ttl) = (world.plan.servers, world.plan.longest_ttl);
    let mut caller = Caller { scene, locker: locker.clone(), servers, longest_ttl, prng };
    if timeout(limit, caller.be_served(number)).await.is_err() {
        world.history().breach("liveness", format!("client {number} is not served"));
    }
}

/// The promises that replies to callers broke.
pub(super) fn broken(world: &World) -> Vec<Breach> {
    let plan = &world.plan;
    let forgetful = lock(&world.counters_lost).len();
    let fair = Fair {
        keeps_leases: !(plan.is_beyond || plan.forgets_alone()),
        remembers: forgetful < 2 * plan.quorum - plan.servers,
        has_even_clocks: !plan.has(Fault::StepForward),
    };
    let most = most(plan.servers, plan.clients * (plan.tasks + 1), plan.longest_ttl);
    let broken = lock(&world.accounts).broken(fair, &most, PARTIES);
    broken.into_iter().map(|(check, text)| Breach { check, text }).collect()
}
