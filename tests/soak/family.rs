//! Callers of jobs, requests, limits, latches and barriers, in the simulation as on real servers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_testing::accounts::{Accounts, Answer, Arrival, Look, Most, Take, Trade, Work};
use tokio::time::sleep;

use super::prng::Prng;
use crate::barriers::{Generation, LatchState};
use crate::limits::{Rate, RateLimit, Reservation};
use crate::once::{JobOutcome, RequestOutcome, Run, Slot};
use crate::{Error, Locker};

/// Since the run began.
type At = Duration;

/// Of each latch and each barrier.
pub(crate) const PARTIES: usize = 2;
/// Beyond all runs: what was told once holds to the end.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens that a caller takes ahead now and then.
const AHEAD: u32 = 2;
/// The number of the barrier: those of latches are above it.
const BARRIER: usize = 0;

/// Where callers are.
pub(crate) trait Scene: Send + Sync + 'static {
    fn now(&self) -> At;
    /// For how long the caller's process has stood still so far.
    fn stood_still(&self) -> Duration;
    /// Up to when work is certainly under its lease, which was asked for then, and is not over `now`.
    fn leased_until(&self, begun: At, ttl: Duration, now: At) -> At;
    fn accounts(&self) -> &Mutex<Accounts>;
    fn count(&self, what: &'static str);
    /// A caller was not served.
    fn refused(&self, error: &Error);
}

pub(crate) struct Caller<S> {
    pub(crate) scene: Arc<S>,
    pub(crate) locker: Locker,
    pub(crate) servers: usize,
    /// No lease has a longer TTL.
    pub(crate) longest_ttl: Duration,
    pub(crate) prng: Prng,
}

/// What each limit lets through: of the second one, each of the callers may have taken some ahead.
pub(crate) fn most(servers: usize, callers: usize, longest_ttl: Duration) -> [Most; 2] {
    let (burst, count) = (small(2 * servers), small(servers));
    let plain = Most { burst, count, period: longest_ttl };
    [plain, Most { burst: burst + (AHEAD - 1) * small(callers), ..plain }]
}

/// Work that is under way: it ends with this.
struct Ongoing<S: Scene> {
    scene: Arc<S>,
    place: usize,
    ttl: Duration,
    stood_still: Duration,
}

impl<S: Scene> Ongoing<S> {
    fn begin(scene: &Arc<S>, trade: Trade, of: (usize, u64), begun: At, ttl: Duration) -> Self {
        let (granted, (name, number)) = (scene.now(), of);
        let work = Work { trade, name, number, begun, granted, until: granted, finished: None };
        let mut accounts = accounts(&**scene);
        accounts.works.push(work);
        let place = accounts.works.len() - 1;
        Self { scene: Arc::clone(scene), place, ttl, stood_still: scene.stood_still() }
    }

    /// Works for this long, and where the work stands in the accounts.
    async fn carry_out(self, naps: Vec<Duration>) -> usize {
        for nap in naps {
            sleep(nap).await;
            self.look();
        }
        self.place
    }

    /// It may have ended while its process stood still.
    fn look(&self) {
        if self.scene.stood_still() == self.stood_still {
            let work = &mut accounts(&*self.scene).works[self.place];
            let until = self.scene.leased_until(work.begun, self.ttl, self.scene.now());
            work.until = work.until.max(until);
        }
    }
}

impl<S: Scene> Drop for Ongoing<S> {
    fn drop(&mut self) {
        self.look();
    }
}

pub(crate) fn accounts<S: Scene + ?Sized>(scene: &S) -> MutexGuard<'_, Accounts> {
    scene.accounts().lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Scene> Caller<S> {
    /// Asks for one of them, and works where it is to.
    pub(crate) async fn turn(&mut self) {
        // Several servers count together neither parties nor what is unfinished.
        let outcome = match self.prng.index(if self.servers == 1 { 6 } else { 3 }) {
            0 => self.run_slot(Trade::Once).await,
            1 => self.request().await,
            2 => self.take_tokens().await,
            3 => self.run_slot(Trade::AtLeastOnce).await,
            4 => self.latch().await,
            _ => self.barrier().await,
        };
        if let Err(error) = outcome {
            self.scene.refused(&error);
        }
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        self.prng.millis(0..u64::try_from(most.as_millis()).expect("it is short") + 1)
    }

    fn ttl(&mut self) -> Duration {
        self.longest_ttl / 4 + self.up_to(self.longest_ttl * 3 / 4)
    }

    /// A number that all callers have at about the same time.
    fn era(&self, of: Duration) -> usize {
        usize::try_from(self.scene.now().as_millis() / of.as_millis()).expect("it is small")
    }

    /// Work of a while, which may outlast its lease.
    fn naps(&mut self, ttl: Duration) -> Vec<Duration> {
        (0..self.prng.index(4)).map(|_| self.up_to(ttl / 2)).collect()
    }

    async fn run_slot(&mut self, trade: Trade) -> Result<(), Error> {
        let (is_once, ttl) = (trade == Trade::Once, self.ttl());
        let (name, period) = if is_once {
            ("once", self.longest_ttl / 4)
        } else {
            ("at-least-once", self.longest_ttl)
        };
        let job = self.locker.once(name, Slot::every(period));
        let job = if is_once { job } else { job.at_least_once(ttl) };
        let (naps, fails) = (self.naps(ttl), self.prng.percent(20));
        let (scene, asked) = (Arc::clone(&self.scene), self.scene.now());
        let turn = job.run(async |run| {
            let slot = run.slot.duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
            let slot = u64::try_from(slot.as_millis()).expect("it is before the year 9999");
            let place = Ongoing::begin(&scene, trade, (0, slot), asked, ttl).carry_out(naps).await;
            if fails { Err(()) } else { Ok(place) }
        });
        let what = match turn.await? {
            JobOutcome::Ran { output: Ok(place), .. } => {
                accounts(&*self.scene).works[place].finished = Some(self.scene.now());
                "slots run"
            }
            JobOutcome::Ran { output: Err(()), .. } => "slots failed",
            JobOutcome::Unkept { error, .. } => {
                self.scene.refused(&error);
                "slots run, and their end not heard"
            }
            JobOutcome::Running { .. } => "slots under way",
            _ => "slots taken",
        };
        self.scene.count(what);
        Ok(())
    }

    async fn request(&mut self) -> Result<(), Error> {
        let (ttl, era) = (self.ttl(), self.era(self.longest_ttl * 2));
        let name = if self.prng.percent(25) { era.saturating_sub(self.prng.index(4)) } else { era };
        let fingerprint = if self.prng.percent(10) { "another" } else { "one" };
        let wait =
            if self.prng.percent(40) { self.up_to(self.longest_ttl) } else { Duration::ZERO };
        let request = self.locker.idempotent(format!("request-{name}"), fingerprint, KEEP);
        let request = request.ttl(ttl).wait_at_most(wait);
        let (naps, fails) = (self.naps(ttl), self.prng.percent(20));
        let (scene, asked) = (Arc::clone(&self.scene), self.scene.now());
        let outcome = request.run(async |attempt| {
            let of = (name, attempt.fence().get());
            let place =
                Ongoing::begin(&scene, Trade::Request, of, asked, ttl).carry_out(naps).await;
            // No two attempts have the same result.
            if fails { Err(()) } else { Ok(place.to_string()) }
        });
        let (what, text) = match outcome.await? {
            RequestOutcome::Ran(text) => ("requests carried out", Some(text)),
            RequestOutcome::Done(text) => ("requests done before", Some(text)),
            RequestOutcome::Unkept { error, .. } => {
                self.scene.refused(&error);
                ("results not kept", None)
            }
            RequestOutcome::Failed(()) => ("requests failed", None),
            RequestOutcome::Running { .. } => ("requests under way", None),
            _ => ("requests of another kind", None),
        };
        self.scene.count(what);
        if let Some(text) = text {
            let (text, told) = (text.to_vec(), self.scene.now());
            accounts(&*self.scene).answers.push(Answer { name, fingerprint, text, told });
        }
        Ok(())
    }

    async fn take_tokens(&mut self) -> Result<(), Error> {
        if self.prng.percent(40) {
            let limit = self.limit(1).prefetch(AHEAD);
            return self.take_one_by_one(1, limit).await;
        }
        let limit = self.limit(0);
        if self.prng.percent(50) {
            return self.take_one_by_one(0, limit).await;
        }
        let (tokens, within) = (1 + small(self.prng.index(2)), self.up_to(self.longest_ttl));
        let from = self.scene.now();
        if let Reservation::Booked { starts_in } = limit.reserve(tokens, within).await? {
            let (from, to) = (from + starts_in, self.scene.now() + starts_in);
            self.note_take(Take { limit: 0, tokens, from, to });
        }
        Ok(())
    }

    async fn take_one_by_one(&mut self, number: usize, limit: RateLimit) -> Result<(), Error> {
        for _ in 0..=self.prng.index(4) {
            let from = self.scene.now();
            if limit.take(1).await?.is_allowed() {
                self.note_take(Take { limit: number, tokens: 1, from, to: self.scene.now() });
            }
            sleep(self.up_to(self.longest_ttl / 20)).await;
        }
        Ok(())
    }

    fn limit(&self, number: usize) -> RateLimit {
        let [Most { burst, count, period }, _] = most(self.servers, 0, self.longest_ttl);
        self.locker.limit(format!("limit-{number}"), Rate::new(count, period).burst(burst))
    }

    fn note_take(&self, take: Take) {
        self.scene.count("tokens taken");
        accounts(&*self.scene).takes.push(take);
    }

    async fn latch(&mut self) -> Result<(), Error> {
        let gate = BARRIER + 1 + self.era(self.longest_ttl * 4);
        let latch = self.locker.latch(format!("latch-{gate}"), small(PARTIES));
        let asked = self.scene.now();
        let progress = match self.prng.index(3) {
            0 => {
                let party = self.prng.index(PARTIES);
                let arrival = self.arrive(gate, party, Some(1));
                let progress = latch.count_down(format!("party-{party}")).await?;
                accounts(&*self.scene).arrivals[arrival].told = Some(self.scene.now());
                progress
            }
            1 => latch.state().await?,
            _ => latch.wait(self.up_to(self.longest_ttl)).await?,
        };
        self.note_gate(gate, (1, progress == LatchState::Open), asked);
        Ok(())
    }

    async fn barrier(&mut self) -> Result<(), Error> {
        let barrier = self.locker.barrier("barrier", small(PARTIES));
        let number = self.prng.index(PARTIES);
        let mut party = barrier.party(format!("party-{number}"));
        for _ in 0..=self.prng.index(6) {
            let asked = self.scene.now();
            if self.prng.percent(20) {
                let Generation { generation, left, .. } = barrier.generation().await?;
                self.note_gate(BARRIER, (generation, left == 0), asked);
                continue;
            }
            let arrival = self.arrive(BARRIER, number, None);
            let seen = match self.prng.percent(50) {
                true => party.wait(self.up_to(self.longest_ttl)).await,
                false => party.arrive().await,
            };
            // The next call is for the same generation.
            let seen = match seen {
                Ok(seen) => seen,
                Err(error) => {
                    self.scene.refused(&error);
                    continue;
                }
            };
            let known = Arrival {
                generation: Some(seen.generation),
                told: Some(self.scene.now()),
                ..accounts(&*self.scene).arrivals[arrival].clone()
            };
            accounts(&*self.scene).arrivals[arrival] = known;
            self.note_gate(BARRIER, (seen.generation, seen.is_open()), asked);
        }
        Ok(())
    }

    /// A party is to come.
    fn arrive(&self, gate: usize, party: usize, generation: Option<u64>) -> usize {
        let arrival = Arrival { gate, party, generation, asked: self.scene.now(), told: None };
        let mut accounts = accounts(&*self.scene);
        accounts.arrivals.push(arrival);
        accounts.arrivals.len() - 1
    }

    fn note_gate(&self, gate: usize, (generation, is_open): (u64, bool), asked: At) {
        self.scene.count(if is_open { "gates seen open" } else { "gates seen closed" });
        let look = Look { gate, generation, is_open, asked, told: self.scene.now() };
        accounts(&*self.scene).looks.push(look);
    }

    /// Asks for each of them until it is served. For when nothing fails.
    pub(crate) async fn be_served(&mut self, number: usize) {
        while let Err(error) = self.ask_for_all(number).await {
            self.scene.refused(&error);
            sleep(self.longest_ttl / 20).await;
        }
    }

    async fn ask_for_all(&self, number: usize) -> Result<(), Error> {
        let Self { locker, longest_ttl, servers, .. } = self;
        locker.once("once", Slot::every(*longest_ttl / 4)).run(nothing).await?;
        let request = locker.idempotent(format!("last-{number}"), "", KEEP);
        request.run(async |_| Ok::<_, ()>("")).await?;
        self.limit(0).take(1).await?;
        if *servers > 1 {
            return Ok(());
        }
        let job = locker.once("at-least-once", Slot::every(*longest_ttl));
        job.at_least_once(*longest_ttl).run(nothing).await?;
        let (parties, gate) = (small(PARTIES), format!("last-{number}"));
        let (latch, barrier) = (locker.latch(&gate, parties), locker.barrier(&gate, parties));
        let mut opened = (false, false);
        for party in (0..PARTIES).map(|party| format!("party-{party}")) {
            opened.0 = latch.count_down(&party).await?.is_open();
            opened.1 = barrier.party(&party).arrive().await?.is_open();
        }
        assert_eq!(opened, (true, true), "all parties have come");
        Ok(())
    }
}

async fn nothing(_: &Run) -> Result<(), ()> {
    Ok(())
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("it is small")
}
