//! A request that is carried out once for its key, and answered with its result from then on
//! (`scripts/begin.lua`; with several servers, `agreement.rs`).

use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::agreement::{Agreement, PROPOSALS_MAX, Proposed, Value};
use super::asking::Purpose;
use super::site::{Failures, Site, in_millis};
use super::stint::Stint;
use super::vigil::Vigil;
use crate::clock;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::machine::Script;
use crate::names::Key;
use crate::owner::{Mark, Owner};
use crate::policy::{Moment, Reading, Term, Units};
use crate::scripts::script;

static SCRIPT: Script = script!("begin.lua");
pub(super) const SUFFIX: &[u8] = b":idempotent";
/// More than any digest has: a caller with more to compare gives its digest.
const FINGERPRINT_BYTES_MAX: usize = 256;
/// Half of the longest text in a server's reply. A longer result belongs elsewhere, and its address here.
const RESULT_BYTES_MAX: usize = 32 * 1024;
const KEEP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Longer than most requests take, and not longer than a client waits after it was cut off.
const TTL: Duration = Duration::from_secs(10);
/// The pause before asking again while others finish the result, one after the other.
const BUSY: Duration = Duration::from_millis(200);

/// A request under an idempotency key, by [`Locker::idempotent`](crate::Locker::idempotent).
#[must_use = "the request is carried out only if it is run"]
pub struct IdempotentRequest {
    site: Site,
    fingerprint: Box<[u8]>,
    keep: Duration,
    term: Term,
    /// How long the caller waits, for others and for servers; none: not at all.
    wait: Option<Duration>,
}

/// The outcome of a request. Later versions may add others: a `match` needs a `_` for them, for requests that were not
/// carried out. Two that are [`Unkept`](Self::Unkept) are equal if their results and their errors' kinds are.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestOutcome<E> {
    /// The request was carried out here, with this result.
    Ran(Bytes),
    /// The request was carried out before, with this result.
    Done(Bytes),
    /// The request was carried out here, and no server is known to keep the result: once the TTL is over, a caller
    /// with the same key may carry it out again. Take it for done. To have the result kept after all, run the
    /// request again with work that returns it.
    Unkept {
        /// What the work returned.
        result: Bytes,
        /// Why the result is not kept. [`Lost`](crate::ErrorKind::Lost): another attempt has begun, so the work may
        /// have been done twice. [`Misuse`](crate::ErrorKind::Misuse): it is too long. Any other: a server may have it.
        error: Error,
    },
    /// The work ran here and failed. Another caller may try again at once.
    Failed(E),
    /// Another caller carries the request out.
    Running {
        /// How much longer that caller's lease lasts, unless it is renewed.
        left: Duration,
    },
    /// Another request has had the same key: its fingerprint differs.
    KeyReused,
}

/// An attempt to carry a request out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// How often the request was started, this attempt included. Above 1, an earlier attempt may have done
    /// a part of it. With several servers, attempts that asked and did not begin count too.
    pub number: u64,
    fence: FencingToken,
}

impl Attempt {
    /// The fencing token, which rises with every attempt: a resource that remembers it from the attempt's first read
    /// on refuses the late writes of earlier attempts.
    #[must_use]
    pub fn fence(&self) -> FencingToken {
        self.fence
    }
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Started(Attempt),
    Done(Bytes),
    Running(Duration),
    Other,
}

impl IdempotentRequest {
    pub(crate) fn new(site: Site, fingerprint: &[u8], keep: Duration) -> Self {
        let mut site = site;
        if fingerprint.len() > FINGERPRINT_BYTES_MAX {
            let (most, len) = (FINGERPRINT_BYTES_MAX, fingerprint.len());
            site.refuse(format!(
                "a fingerprint must be at most {most} bytes, not {len}: give a digest"
            ));
        }
        if keep < Duration::from_secs(1) || keep > KEEP_MAX {
            let (longest, kept) = (Units(KEEP_MAX), Units(keep));
            site.refuse(format!("a result must be kept for between 1 s and {longest}, not {kept}"));
        }
        let term = site.term(TTL);
        Self { site, fingerprint: fingerprint.into(), keep, term, wait: None }
    }

    /// Sets how long an attempt that is cut off or ends without a result keeps others from trying again:
    /// 10 s by default; 10 ms to 24 h. This lease is renewed while the work runs.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.term = self.site.term(ttl);
        self
    }

    /// Waits until another caller has carried the request out, or cannot any more, for at most `wait`. The
    /// server pushes that. Once `wait` is over, servers are not asked again.
    ///
    /// After the work, servers that do not answer are asked to keep its result for the rest of `wait`: for at least one
    /// command, and not beyond the lease. Without this limit they are asked until the lease ends, at most a TTL.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Carries the request out, unless that was done before, or another caller does it now.
    ///
    /// The result has at most 32 KiB. If `work` fails, another caller may try again at once, and the error is
    /// in [`RequestOutcome::Failed`]. Work that was done is never an `Err`: if servers do not keep its result, that is
    /// [`RequestOutcome::Unkept`].
    ///
    /// # Errors
    ///
    /// As a request for a lock, if the server, or too many of several, gave no usable answer: the work did not begin,
    /// and if the command arrived, others wait for the TTL.
    /// [`Lost`](crate::ErrorKind::Lost) if the lease ended while the work was under way: the work was dropped, and has
    /// been done in part. [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, fingerprint or time.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the work has been done in part; others can repeat it once the TTL is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn charge(_: leasehold::FencingToken) -> Result<Vec<u8>, std::io::Error> { Ok(vec![]) }
    /// # async fn example(locker: leasehold::Locker, digest: &[u8]) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::once::RequestOutcome;
    ///
    /// let day = Duration::from_secs(86_400);
    /// let request = locker.idempotent("payment:8f2c", digest, day);
    /// match request.run(async |attempt| charge(attempt.fence()).await).await? {
    ///     RequestOutcome::Ran(receipt) | RequestOutcome::Done(receipt) => println!("200 {receipt:?}"),
    ///     RequestOutcome::Unkept { result, error } => println!("200 {result:?}, and a retry may pay again: {error}"),
    ///     RequestOutcome::Running { left } => println!("409, Retry-After: {left:?}"),
    ///     RequestOutcome::KeyReused => println!("422, the key was used for another request"),
    ///     RequestOutcome::Failed(error) => println!("500 {error}"),
    ///     _ => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<R: Into<Bytes>, E>(
        &self,
        work: impl AsyncFnOnce(&Attempt) -> Result<R, E>,
    ) -> Result<RequestOutcome<E>, Error> {
        self.site.admit()?;
        let (owner, key) = (Owner::fresh(Mark::default()), self.site.key(SUFFIX));
        let called_at = clock::now();
        let (said, asked_at) = self.begin(&owner, &key).await?;
        let attempt = match said {
            Said::Started(attempt) => attempt,
            Said::Done(result) => return Ok(RequestOutcome::Done(result)),
            Said::Running(left) => return Ok(RequestOutcome::Running { left }),
            Said::Other => return Ok(RequestOutcome::KeyReused),
        };
        let left = self.wait.map(|wait| wait.saturating_sub(clock::now().since(called_at)));
        let mut stint = match self.agreement(&owner, &key) {
            Some(agreement) => Stint::promised(agreement, attempt.fence.get(), self.term, asked_at),
            None => Stint::begun(&self.site, &key, &owner, (self.term, self.keep), asked_at),
        };
        let result: Bytes = match stint.carry(work(&attempt)).await? {
            Ok(result) => result.into(),
            Err(error) => {
                stint.give_up().await;
                return Ok(RequestOutcome::Failed(error));
            }
        };
        let kept = match result.len() {
            ..=RESULT_BYTES_MAX => stint.finish(&result, left).await,
            len => {
                let most = RESULT_BYTES_MAX;
                let what = format!("the result must be at most {most} bytes, not {len}");
                Err(self.site.misuse(what + ": it is not kept"))
            }
        };
        Ok(match kept {
            Ok(()) => RequestOutcome::Ran(result),
            Err(error) => RequestOutcome::Unkept { result, error },
        })
    }

    /// The agreement with several servers, if there are several.
    fn agreement<'a>(&'a self, owner: &'a Owner, key: &'a Key) -> Option<Agreement<'a>> {
        let Self { site, fingerprint, keep, term, .. } = self;
        let ttl_ms = term.ttl_ms();
        let agreement = Agreement { site, key, owner, fingerprint, ttl_ms, keep: *keep };
        (site.servers() > 1).then_some(agreement)
    }

    /// The answer, as soon as nobody else carries the request out or the wait is over; and when servers
    /// were asked.
    async fn begin(&self, owner: &Owner, key: &Key) -> Result<(Said, Moment), Error> {
        let began_at = clock::now();
        let wait = self.wait.unwrap_or_default();
        let until = began_at.after(wait);
        let watch = (!wait.is_zero()).then(|| self.site.watch(key));
        let mut vigil = watch.as_ref().map(Vigil::new);
        let purpose = watch.as_ref().map_or(Purpose::Act, Purpose::Watch);
        let mut is_again = false;
        loop {
            if let Some(vigil) = &vigil {
                vigil.rearm();
            }
            let mut said = match self.agreement(owner, key) {
                Some(agreement) => agree(agreement, purpose, is_again).await,
                None => self.ask(purpose, owner, key).await,
            };
            is_again = true;
            let now = clock::now();
            if let (Ok((Said::Running(lease), _)), Some(vigil)) = (&mut said, &mut vigil) {
                let rested = vigil.rest(until.since(now).min(*lease)).await;
                rested.map_err(|closed| self.site.shut_down(closed))?;
                if clock::now() < until {
                    continue;
                }
                // A command after the limit could begin the work.
                *lease = lease.saturating_sub(until.since(now));
            }
            self.site.note(outcome_of(said.as_ref().ok().map(|(said, _)| said)), began_at);
            return said.map_err(|failures| self.site.unserved(failures));
        }
    }

    /// The answer of a single server.
    async fn ask(
        &self,
        purpose: Purpose<'_>,
        owner: &Owner,
        key: &Key,
    ) -> Result<(Said, Moment), Failures> {
        let ttl = self.term.ttl();
        let [ttl, lasts] = [ttl, self.keep.max(ttl)].map(in_millis);
        let length = Decimal::new(self.fingerprint.len() as u64);
        let fingerprint = [&*length, b" ", &*self.fingerprint].concat();
        let parameters = [b"1", &**key, owner.value(), &fingerprint, &ttl, &lasts];
        let asked_at = clock::now();
        let said = self.site.ask_twice(purpose, &SCRIPT, &parameters, Said::read).await;
        said.map(|said| (said, asked_at)).map_err(|reason| vec![(0, reason)])
    }
}

/// The answer on which several servers have agreed. A result that may not be decided is finished first.
async fn agree(
    agreement: Agreement<'_>,
    purpose: Purpose<'_>,
    is_again: bool,
) -> Result<(Said, Moment), Failures> {
    // Writes of waiters would wake one another.
    let mut is_look = is_again;
    for _ in 0..PROPOSALS_MAX {
        let asked = match is_look {
            true => agreement.look(purpose).await?,
            false => agreement.propose(purpose).await?,
        };
        let promised = match asked {
            Proposed::Promised(promised) => promised,
            Proposed::Running { is_other: true, .. } => return Ok((Said::Other, clock::now())),
            Proposed::Running { left, .. } => return Ok((Said::Running(left), clock::now())),
        };
        if is_look && !matches!(promised.reading, Reading::Decided(_)) {
            is_look = false;
            continue;
        }
        let token = promised.token;
        let value = match promised.reading {
            Reading::Nothing => {
                let fence = FencingToken::new(token);
                let attempt = Attempt { number: promised.starts, fence };
                return Ok((Said::Started(attempt), promised.asked_at));
            }
            Reading::Decided(value) => Some(value),
            Reading::Open(Value { fingerprint, text }) => {
                let is_finished = agreement.accept(token, "finish", &fingerprint, &text).await?;
                is_finished.then_some(Value { fingerprint, text })
            }
        };
        if let Some(value) = value {
            let is_other = value.fingerprint != agreement.fingerprint;
            let said = if is_other { Said::Other } else { Said::Done(value.text) };
            return Ok((said, promised.asked_at));
        }
    }
    Ok((Said::Running(BUSY), clock::now()))
}

fn outcome_of(said: Option<&Said>) -> &'static str {
    match said {
        Some(Said::Started(_)) => "started",
        Some(Said::Done(_)) => "done",
        Some(Said::Running(_)) => "running",
        Some(Said::Other) => "other",
        None => "failed",
    }
}

impl Said {
    /// Reads the reply of `begin.lua`.
    fn read(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        match items.get(1..)? {
            [Frame::Bulk(word), Frame::Integer(number @ 1..), Frame::Bulk(token)]
                if word == "started" =>
            {
                let token = std::str::from_utf8(token).ok()?.parse().ok()?;
                let number = u64::try_from(*number).ok()?;
                Some(Self::Started(Attempt { number, fence: FencingToken::new(token) }))
            }
            [Frame::Bulk(word), Frame::Bulk(result)] if word == "done" => {
                Some(Self::Done(result.clone()))
            }
            [Frame::Bulk(word), Frame::Integer(left @ 1..)] if word == "running" => {
                Some(Self::Running(Duration::from_millis(u64::try_from(*left).ok()?)))
            }
            [Frame::Bulk(word)] if word == "other" => Some(Self::Other),
            _ => None,
        }
    }
}

impl<E: PartialEq> PartialEq for RequestOutcome<E> {
    fn eq(&self, other: &Self) -> bool {
        use RequestOutcome as Its;
        match (self, other) {
            (Its::Ran(one), Its::Ran(other)) | (Its::Done(one), Its::Done(other)) => one == other,
            (
                Its::Unkept { result: one, error: why },
                Its::Unkept { result: other, error: its_why },
            ) => one == other && why.kind() == its_why.kind(),
            (Its::Failed(one), Its::Failed(other)) => one == other,
            (Its::Running { left: one }, Its::Running { left: other }) => one == other,
            (Its::KeyReused, Its::KeyReused) => true,
            _ => false,
        }
    }
}

impl std::fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotentRequest").field("keep", &self.keep).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
