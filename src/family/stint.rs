//! Work under a lease in the primitive's own key: `scripts/settle.lua` extends, finishes and gives up work that
//! another script has started; with several servers, `scripts/accept.lua` does.
//!
//! The lease is renewed in the caller's task, beside the work. Its end is counted as that of a lock's lease:
//! from before the command was sent, less drift (safety rule 2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::agreement::{Agreement, is_accepted};
use super::asking::Purpose;
use super::site::{Failures, Site, in_millis};
use crate::clock;
use crate::error::Error;
use crate::machine::Script;
use crate::names::Key;
use crate::net::reason::Reason;
use crate::owner::Owner;
use crate::policy::{Loss, Moment, Term, renew_at, retry_at};
use crate::race::{First, race};
use crate::scripts::script;

pub(super) static SETTLE: Script = script!("settle.lua");

/// Ready at `at`, by the clock, which counts suspension: each poll reads it first.
fn reached(site: &Site, at: Moment) -> impl Future<Output = ()> + Unpin + use<> {
    let mut timer = Box::pin(site.sleep(at.since(clock::now())));
    poll_fn(move |context| match clock::now() >= at {
        true => Poll::Ready(()),
        false => timer.as_mut().poll(context),
    })
}

/// Work that was started, until it is settled.
pub(super) struct Stint<'a> {
    site: &'a Site,
    key: &'a Key,
    owner: &'a Owner,
    term: Term,
    /// How long the key is kept.
    keep: Duration,
    /// With several servers: how to ask them, and the token that they promised.
    agreement: Option<(Agreement<'a>, u64)>,
    /// When the lease was last requested or extended, and when it ends for us.
    asked_at: Moment,
    deadline: Moment,
}

impl<'a> Stint<'a> {
    /// The work that this owner has started by a command sent at `asked_at`.
    pub(super) fn begun(
        site: &'a Site,
        key: &'a Key,
        owner: &'a Owner,
        (term, keep): (Term, Duration),
        asked_at: Moment,
    ) -> Self {
        let (agreement, deadline) = (None, term.deadline(asked_at));
        Self { site, key, owner, term, keep, agreement, asked_at, deadline }
    }

    /// The work that several servers have promised under a token.
    pub(super) fn promised(
        agreement: Agreement<'a>,
        token: u64,
        term: Term,
        asked_at: Moment,
    ) -> Self {
        let Agreement { site, key, owner, keep, .. } = agreement;
        let begun = Self::begun(site, key, owner, (term, keep), asked_at);
        Self { agreement: Some((agreement, token)), ..begun }
    }

    /// The work's output, with the lease renewed meanwhile.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lease ended first: the work is dropped. [`Error::is_timeout`] if too
    /// little of the lease was left for the work to begin.
    pub(super) async fn carry<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        if !self.term.is_worthwhile(self.deadline, clock::now()) {
            self.give_up().await;
            return Err(self.site.too_late());
        }
        let mut work = pin!(work);
        let (mut next, mut failed) = (renew_at(self.asked_at, self.term.ttl()), 0);
        loop {
            match race(reached(self.site, next.min(self.deadline)), work.as_mut()).await {
                First::One(()) => {}
                First::Other(output) => return Ok(output),
            }
            let asked_at = clock::now();
            if asked_at >= self.deadline || self.site.is_deserted() {
                return Err(self.site.lost(Loss::Expired));
            }
            let over = reached(self.site, self.deadline);
            let extended = race(race(over, pin!(self.settle("extend", b""))), work.as_mut()).await;
            match extended {
                First::Other(output) => return Ok(output),
                First::One(First::Other(Ok(true))) => {
                    self.asked_at = asked_at;
                    self.deadline = self.term.deadline(asked_at);
                    (next, failed) = (renew_at(asked_at, self.term.ttl()), 0);
                }
                First::One(First::Other(Ok(false))) => return Err(self.site.gone()),
                First::One(_) => {
                    let (now, random) = (clock::now(), clock::random_bits());
                    let again = retry_at(now, failed, self.term.ttl(), self.deadline, random);
                    next = again.unwrap_or(self.deadline);
                    failed += 1;
                }
            }
        }
    }

    /// Records that the work is done, with this result; repeats that until the server has answered, as long as
    /// the lease is good, and within this limit. Each command has the usual timeout.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if another owner has started since. With any other error the server may
    /// have the record or not.
    pub(super) async fn finish(&self, result: &[u8], limit: Option<Duration>) -> Result<(), Error> {
        let now = clock::now();
        let until = limit.map_or(self.deadline, |limit| self.deadline.min(now.after(limit)));
        let mut over = reached(self.site, until.max(now.after(self.site.command_timeout())));
        let unanswered = |server| (server, Reason::Unanswered);
        let (mut failed, mut failures) = (0, (0..self.site.servers()).map(unanswered).collect());
        let span = limit.map_or(self.term.ttl(), |limit| limit.min(self.term.ttl()));
        loop {
            // A reply that has come counts even if the time is over.
            match race(pin!(self.say_finished(result)), &mut over).await {
                First::One(Ok(true)) => return Ok(()),
                First::One(Ok(false)) => return Err(self.site.gone()),
                First::One(Err(again)) => failures = again,
                First::Other(()) => return Err(self.site.unserved(failures)),
            }
            let (now, random) = (clock::now(), clock::random_bits());
            match retry_at(now, failed, span, until, random) {
                Some(again) if !self.site.is_deserted() => {
                    self.site.sleep(again.since(now)).await;
                }
                _ => return Err(self.site.unserved(failures)),
            }
            failed += 1;
        }
    }

    async fn say_finished(&self, result: &[u8]) -> Result<bool, Failures> {
        let settled = self.settle("finish", result).await;
        let is_good = self.deadline > clock::now();
        match (settled, &self.agreement) {
            (Ok(true), _) => Ok(true),
            // No other owner has begun while the lease is good.
            (_, Some((agreement, _))) if is_good => agreement.insist(result).await,
            (settled, _) => settled,
        }
    }

    /// Lets others repeat the work at once. If the server does not get this, they wait for the lease's end.
    pub(super) async fn give_up(&self) {
        let _ = self.settle("fail", b"").await;
    }

    /// Whether the work was still its owner's.
    async fn settle(&self, how: &str, result: &[u8]) -> Result<bool, Failures> {
        if let Some((agreement, token)) = &self.agreement {
            return agreement.accept(*token, how, agreement.fingerprint, result).await;
        }
        let ttl = self.term.ttl();
        let [ttl, lasts] = [ttl, self.keep.max(ttl)].map(in_millis);
        let owner = self.owner.value();
        let parameters = [b"1", &**self.key, owner, how.as_bytes(), &ttl, &lasts, result];
        let settled = self.site.ask(0, Purpose::Act, &SETTLE, &parameters, is_accepted).await;
        settled.map_err(|reason| vec![(0, reason)])
    }
}
