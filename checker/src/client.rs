//! One client: takes a lock, works under it, and now and then stays longer than its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use leasehold_testing::leases::Part;

use crate::adapter::{Adapter, Reply};
use crate::history::{Answer, At, Claim, Lease, Recorder};
use crate::plan::Kind;
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
    pub(crate) kind: Kind,
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
            let (part, question) = self.question(name, ttl);
            let granted = match self.adapter.ask(&question) {
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
            self.hold((name, part, ttl), begun, granted, ttl * percent / 100, &mut leases);
            sleep(self.prng.millis(0..15));
        }
        leases
    }

    fn question(&mut self, name: usize, ttl: u64) -> (Part, String) {
        let (part, verb, limit) = match self.stage.kind {
            Kind::Lock => (Part::Whole, "acquire", String::new()),
            Kind::Shares if self.prng.percent(60) => (Part::Reader, "read", String::new()),
            Kind::Shares => (Part::Whole, "write", String::new()),
            Kind::Permits(limit) => (Part::Permit(1), "permit", format!(" {limit}")),
        };
        (part, format!("{verb} lock:{name} {ttl}{limit}"))
    }

    /// Holds for some time what was granted just now, and notes how that went.
    pub(crate) fn hold(
        &mut self,
        (name, part, ttl): (usize, Part, Duration),
        begun: At,
        token: Option<u64>,
        stay: Duration,
        leases: &mut Vec<(Lease, Duration)>,
    ) {
        let granted = self.now();
        self.count("leases granted");
        let lease = Lease {
            name,
            client: self.number,
            part,
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
        if is_held && part == Part::Reader && self.prng.percent(50) {
            leases.extend(self.upgrade(&mut held));
            is_held = self.look(&mut held);
        }
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
        let lease = self.release(held);
        leases.push((lease, ttl));
    }

    /// Asks for the whole lock in the place of a reader's share; returns the reader's lease if it is over.
    fn upgrade(&mut self, held: &mut Held) -> Option<(Lease, Duration)> {
        let asked = self.now();
        match self.adapter.ask("upgrade") {
            Reply::Granted(token) => {
                self.count("upgrades");
                let granted = self.now();
                let mut reader = held.lease.clone();
                (reader.until, reader.end) = (reader.until.min(asked), "upgraded");
                let Lease { part, token: its, begun, granted: since, until, .. } = &mut held.lease;
                (*part, *its) = (Part::Whole, token.unwrap_or(0));
                (*begun, *since, *until) = (asked, granted, granted);
                Some((reader, held.ttl))
            }
            Reply::Stuck => {
                self.count(STUCK);
                None
            }
            _ => None,
        }
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

    /// The holder of a share reads nothing that is to be written.
    fn read(&self, held: &Held) -> Option<Seen> {
        let Lease { name, part, token, .. } = held.lease;
        (part == Part::Whole).then(|| self.stage.registers[name].read(token))
    }

    /// As a client does that was told a moment ago that the lock is held.
    fn write(&self, held: &Held, seen: Option<Seen>) {
        let Lease { name, token, .. } = held.lease;
        let is_late = seen.is_some_and(|seen| !self.stage.registers[name].increment(token, seen));
        if is_late && held.has_token {
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
