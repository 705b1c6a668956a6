//! Clients that take shares of locks: readers beside a writer, and permits of a semaphore.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::timeout;

use super::actor::{Actor, Held};
use super::history::{At, Lease, Part};
use super::meddle;
use super::plan::{LIMIT, key};
use super::world::World;
use crate::clock::simulated::elapsed;
use crate::guard::Guard;
use crate::locker::Locker;
use crate::policy::Moment;
use crate::request::LockRequest;

impl Actor {
    /// Takes a whole lock, or a share of it, and holds it for a while.
    pub(super) async fn turn_sharing(&mut self) {
        let longest = self.world.plan.longest_ttl;
        let (request, name, part) = self.share();
        let ttl = self.ttl();
        let request = request.ttl(ttl).wait_at_most(self.up_to(longest * 2));
        let request = if self.prng.percent(60) { request } else { request.no_renewal() };
        let patience = if self.prng.percent(15) { self.up_to(longest / 4) } else { Duration::MAX };
        let begun = elapsed();
        match timeout(patience, request.into_future()).await {
            Err(_) => self.count("shares cancelled"),
            Ok(Err(_)) => self.count("shares refused"),
            Ok(Ok(guard)) => {
                self.count("shares");
                self.hold_share(guard, name, part, ttl, begun).await;
            }
        }
    }

    fn share(&mut self) -> (LockRequest, usize, Part) {
        let [lock, semaphore] = self.world.plan.shared().expect("there are shares");
        match self.prng.index(10) {
            0..=3 => (self.locker.read(key(lock)), lock, Part::Reader),
            4 => (self.locker.write(key(lock)), lock, Part::Whole),
            5 => (self.locker.lock(key(lock)), lock, Part::Whole),
            _ => {
                let weight = 1 + u32::from(self.world.plan.servers == 1 && self.prng.percent(30));
                let permits = self.locker.semaphore(key(semaphore), LIMIT);
                (permits.acquire(weight), semaphore, Part::Permit(weight))
            }
        }
    }

    /// From its request for another part on, the client works under neither until the reply.
    async fn hold_share(
        &mut self,
        mut guard: Guard,
        name: usize,
        mut part: Part,
        ttl: Duration,
        mut begun: At,
    ) {
        let mut granted = elapsed();
        let token = guard.fence().get();
        let mut held = Held { name, token, ttl, deadline: Moment::from_nanos(0), until: granted };
        for _ in 0..=self.prng.index(4) {
            if guard.is_lost() {
                break;
            }
            self.look(&guard, &mut held);
            let (stood_still, rest) = (self.client.stood_still(), self.up_to(ttl));
            let is_lost = timeout(rest, guard.lost()).await.is_ok();
            if is_lost && self.client.stood_still() == stood_still {
                held.until = elapsed();
                break;
            }
            let other = match part {
                Part::Reader => Part::Whole,
                Part::Whole => Part::Reader,
                Part::Permit(_) => continue,
            };
            if !self.prng.percent(20) {
                continue;
            }
            let asked = elapsed();
            let (is_turned, counted) = match other {
                Part::Whole => (meddle::upgrade(&mut guard).await.is_ok(), "upgrades"),
                _ => (guard.downgrade().await.is_ok(), "downgrades"),
            };
            if is_turned {
                self.note_share(&held, part, (begun, granted, asked));
                (part, begun, granted) = (other, asked, elapsed());
                (held.token, held.until) = (guard.fence().get(), granted);
                held.deadline = Moment::from_nanos(0);
                self.count(counted);
            } else if guard.is_lost() {
                held.until = held.until.min(asked);
            }
        }
        let until = if guard.is_lost() { held.until.min(elapsed()) } else { elapsed() };
        self.note_share(&held, part, (begun, granted, until));
        if self.prng.percent(60) {
            let _ = guard.release().await;
        }
    }

    fn note_share(&self, held: &Held, part: Part, (begun, granted, until): (At, At, At)) {
        let (name, client, token) = (held.name, self.client.number, held.token);
        let mut history = self.world.history();
        history.note(format!("client {client} ends {part:?} of {name} as {token}"));
        history.shares.push(Lease { name, client, part, token, begun, granted, until });
    }
}

/// Checks that, once all is well, a writer gets the lock, and one holder all permits.
pub(super) async fn all_can_be_taken(
    world: &World,
    locker: &Locker,
    client: usize,
    limit: Duration,
) {
    let Some([lock, semaphore]) = world.plan.shared() else { return };
    let permits = locker.semaphore(key(semaphore), LIMIT);
    let weights = if world.plan.servers == 1 { vec![LIMIT] } else { vec![1; LIMIT as usize] };
    let all = weights.into_iter().map(|weight| permits.acquire(weight));
    let mut guards = Vec::new();
    for request in all.chain([locker.write(key(lock))]) {
        match request.wait_at_most(limit).await {
            Ok(guard) => guards.push(guard),
            Err(error) => {
                let text = format!("client {client} cannot take what is shared: {error}");
                world.history().breach("liveness", text);
            }
        }
    }
    for guard in guards {
        let _ = guard.release().await;
    }
}
