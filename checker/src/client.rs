//! One client: takes a lock, works under it, and now and then stays longer than its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::adapter::{Adapter, Reply};
use crate::history::{Answer, At, Claim, Lease, Recorder};
use crate::prng::Prng;
use crate::register::{Register, Seen};

/// A call of the library that never ended.
pub(crate) const STUCK: &str = "calls that never ended";
/// Leases of different lengths meet at one lock.
const TTLS_MS: [u64; 3] = [200, 500, 1200];
/// A lease that was granted is over at the server by then, however fast its clock runs, and however
/// late this program reads what it is told.
const GRACE: Duration = Duration::from_millis(60);

/// Older answers say nothing of this moment: their process may have been stopped behind them.
const JUST_NOW: Duration = Duration::from_millis(10);
/// Adapters tell whole milliseconds, rounded either way.
const ROUNDING: Duration = Duration::from_millis(1);

pub(crate) struct Stage {
    pub(crate) recorder: Recorder,
    /// One for each lock.
    pub(crate) registers: Vec<Register>,
    pub(crate) is_over: AtomicBool,
}

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) adapter: Adapter,
    pub(crate) stage: Arc<Stage>,
    pub(crate) prng: Prng,
}

/// A lease, and what the checker knows of it.
struct Held {
    lease: Lease,
    ttl: Duration,
    has_token: bool,
    /// The library said that it holds when the lease was over for certain.
    has_outlived: bool,
}

impl Client {
    /// Returns its leases, each with its TTL.
    pub(crate) fn run(mut self) -> Vec<(Lease, Duration)> {
        let mut leases = Vec::new();
        while !self.stage.is_over.load(Ordering::Relaxed) {
            let (name, ttl) =
                (self.prng.index(self.stage.registers.len()), self.prng.pick(&TTLS_MS));
            let begun = self.now();
            let granted = match self.adapter.ask(&format!("acquire lock:{name} {ttl}")) {
                Reply::Granted(token) => token,
                Reply::Stuck | Reply::Gone => {
                    self.count(STUCK);
                    break;
                }
                _ => {
                    self.count("refused");
                    sleep(self.prng.millis(1..20));
                    continue;
                }
            };
            let ttl = Duration::from_millis(ttl);
            // One in three stays longer than its lease.
            let percent = u32::try_from(self.prng.pick(&[20, 60, 160])).expect("it is small");
            leases.push((self.hold((name, ttl), begun, granted, ttl * percent / 100), ttl));
            sleep(self.prng.millis(0..15));
        }
        leases
    }

    /// Holds for some time a lock that was granted just now, and says how that went.
    pub(crate) fn hold(
        &mut self,
        (name, ttl): (usize, Duration),
        begun: At,
        token: Option<u64>,
        stay: Duration,
    ) -> Lease {
        let granted = self.now();
        self.count("leases granted");
        let lease = Lease {
            name,
            client: self.number,
            token: token.unwrap_or(0),
            begun,
            granted,
            until: granted,
            extended: 0,
            end: "released",
        };
        let mut held = Held { lease, ttl, has_token: token.is_some(), has_outlived: false };
        let end = granted + stay;
        let mut is_held = self.look(&mut held);
        let seen = self.read(&held);
        while is_held && self.now() < end {
            sleep(self.prng.millis(5..40));
            is_held = self.look(&mut held);
        }
        if is_held && self.is_told_just_now(&mut held) {
            self.write(&held, seen);
        } else {
            self.count("losses told by the library");
        }
        self.release(held)
    }

    /// Its answer may have come late: then the question is asked again.
    fn is_told_just_now(&mut self, held: &mut Held) -> bool {
        loop {
            let asked = self.now();
            if !self.look(held) {
                return false;
            }
            if self.now() < asked + JUST_NOW {
                return true;
            }
        }
    }

    fn read(&self, held: &Held) -> Seen {
        self.stage.registers[held.lease.name].read(held.lease.token)
    }

    /// As a client does that was told a moment ago that the lock is held.
    fn write(&self, held: &Held, seen: Seen) {
        let Lease { name, token, .. } = held.lease;
        if !self.stage.registers[name].increment(token, seen) && held.has_token {
            self.count("late writes refused by the token");
        }
    }

    /// Whether the library says that the lock is held; notes from when, and for how long.
    fn look(&mut self, held: &mut Held) -> bool {
        let asked = self.now();
        let Reply::Held(remaining) = self.adapter.ask("held") else { return false };
        let remaining = remaining.map(|remaining| remaining.saturating_sub(ROUNDING));
        // At the latest it answered now, and at the earliest when it was asked.
        held.lease.until = held.lease.until.max(asked + remaining.unwrap_or_default());
        if let Some(remaining) = remaining {
            let Lease { name, token, granted, .. } = held.lease;
            let until = asked + remaining;
            let claim = Claim { name, token, returned: granted, ttl: held.ttl, until };
            self.stage.recorder.history().claims.push(claim);
        }
        if asked > held.lease.granted + held.ttl + GRACE && !held.has_outlived {
            held.has_outlived = true;
            let Lease { name, token, granted, .. } = held.lease;
            let late = asked - granted - held.ttl;
            let text = format!(
                "client {} is told that it holds lock {name} (token {token}) {late:.0?} after the lease of \
                 {:?} ended",
                self.number, held.ttl
            );
            self.stage.recorder.surprise(text);
        }
        true
    }

    fn release(&mut self, held: Held) -> Lease {
        let mut lease = held.lease;
        let before = self.now();
        let reply = self.adapter.ask("release");
        let returned = self.now();
        if matches!(reply, Reply::Stuck) {
            self.count(STUCK);
        }
        let is_lost = matches!(reply, Reply::Lost);
        lease.end = if is_lost { "released when lost" } else { "released" };
        // Nothing but the end of a lease takes keys here: a loss before it is somebody's work.
        let Lease { name, client, token, begun, until, .. } = lease;
        let call = "release";
        let answer = Answer { name, client, token, call, since: begun, returned, until, is_lost };
        self.stage.recorder.history().answers.push(answer);
        lease.until = lease.until.min(before);
        lease
    }

    pub(crate) fn now(&self) -> At {
        self.stage.recorder.now()
    }

    pub(crate) fn count(&self, what: &'static str) {
        self.stage.recorder.count(what);
    }
}
