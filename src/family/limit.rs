//! A rate limit: tokens that come back evenly, taken by one script, `scripts/limit.lua`.
//!
//! Several servers do not count together: each gives its share of the rate and of the burst. A caller
//! asks them one after the other, from a random one on, until one has tokens, and goes on early if
//! one does not answer soon. So together they never give more than the whole, whichever are asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::asking::Purpose;
use super::rate::Rate;
use super::site::{Failures, Site};
use crate::clock;
use crate::error::Error;
use crate::machine::Script;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::policy::{Moment, Units};
use crate::race::next;
use crate::scripts::script;

mod said;

use said::{Said, Wish};

static SCRIPT: Script = script!("limit.lua");
pub(super) const SUFFIX: &[u8] = b":limit";
/// How long a server has to answer before the next is asked too: one in this many parts of a command's timeout.
const SOON_SHARE: u32 = 8;
/// Maximum wait for tokens: a longer one is a hidden queue.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A rate limit that all processes share, by [`Locker::limit`](crate::Locker::limit). Clones are cheap, and
/// share the tokens that were taken ahead.
#[derive(Clone)]
pub struct RateLimit {
    site: Site,
    /// The whole rate, and each server's share.
    rate: Rate,
    share: Rate,
    /// The tokens that are taken at once, if more than a call asks for.
    ahead: u32,
    stock: Arc<Mutex<Stock>>,
}

/// The answer of a limit to a caller that does not wait. Later versions may add others: a `match` needs a `_` for them,
/// which has to treat them as refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowance {
    /// The tokens are taken: go on.
    Allowed {
        /// How many tokens could be taken at once now; with several servers, from the one that answered.
        left: u32,
    },
    /// There are too few tokens, and none were taken.
    Refused {
        /// The time until there are enough, if nobody else takes any.
        retry_after: Duration,
    },
}

impl Allowance {
    /// Whether the tokens are taken.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

/// The answer of a limit to a caller that would wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reservation {
    /// The tokens are taken, for a moment that is still to come.
    Booked {
        /// How long to wait before the tokens are used.
        starts_in: Duration,
    },
    /// The tokens would take longer to come back than the caller would wait, and none were taken.
    Refused {
        /// The time until there are enough to go on at once, if nobody else takes any.
        retry_after: Duration,
    },
}

/// Tokens of this process, taken ahead of their use.
#[derive(Default)]
struct Stock {
    tokens: u32,
    /// Until when the tokens are good: older ones would add to a later burst.
    good_until: Moment,
    /// The number of tokens that the server refused, and until when it has no more.
    refused: u32,
    refused_until: Moment,
    /// When servers last failed, and why.
    failed: Option<(Moment, Failures)>,
}

impl RateLimit {
    pub(crate) fn new(site: Site, rate: Rate) -> Self {
        let mut site = site;
        let share = rate.shared_by(site.servers()).unwrap_or_else(|wrong| {
            site.refuse(wrong);
            rate
        });
        Self { site, rate, share, ahead: 1, stock: Arc::default() }
    }

    /// Takes up to `tokens` at once from the server, and serves later calls of this process from them: 1 to the limit's
    /// burst, or to the share of each of several servers, which is the burst divided by their number. A hot limit then costs
    /// one command for that many calls. A refusal is remembered likewise, until there can be tokens again.
    ///
    /// Tokens taken ahead are good for as long as that many take to come back. So, in any span of time, at
    /// most these are let through beside the burst and the rate's share of the span.
    ///
    /// Observers, metrics and traces get the servers' answers, and not the calls that are served without a server.
    #[must_use]
    pub fn prefetch(mut self, tokens: u32) -> Self {
        if let Err(wrong) = self.takeable(tokens) {
            self.site.refuse(wrong);
        }
        self.ahead = tokens;
        self.stock = Arc::default();
        self
    }

    /// Takes tokens if there are enough, and otherwise returns when there will be. It does not wait.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for a name or a rate that cannot be, for 0 tokens, for more than the burst
    /// or the share of each of several servers, and if another rate is kept under the same name: the error has both.
    /// Without an answer, as a request for a lock: [`Unavailable`](crate::ErrorKind::Unavailable), or
    /// [`Error::is_unknown`] if the tokens may have been taken. The caller decides whether such a call is let through.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the tokens may have been taken.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use leasehold::limits::{Allowance, Rate};
    ///
    /// let limit = locker.limit("mails", Rate::new(100, std::time::Duration::from_secs(1)));
    /// match limit.take(1).await? {
    ///     Allowance::Allowed { left } => println!("go on, {left} left"),
    ///     Allowance::Refused { retry_after } => println!("429, Retry-After: {retry_after:?}"),
    ///     _ => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, tokens: u32) -> Result<Allowance, Error> {
        self.check(tokens)?;
        if self.ahead > 1 {
            return self.take_from_stock(tokens).await;
        }
        let wish = Wish { least: tokens, most: tokens, within: Duration::ZERO };
        Ok(match self.usable(self.ask(wish).await)? {
            Said::Taken { left, .. } => Allowance::Allowed { left },
            said => Allowance::Refused { retry_after: said.retry_after() },
        })
    }

    /// Takes tokens that may still have to come back, if that takes at most `within`: the caller waits for
    /// as long as the answer says, and goes on. Callers are served in the order in which they ask; with
    /// several servers, in that order at each server.
    ///
    /// # Errors
    ///
    /// As [`RateLimit::take`]; and [`Misuse`](crate::ErrorKind::Misuse) if `within` is longer than 24 h.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the tokens may have been taken: they are not returned.
    pub async fn reserve(&self, tokens: u32, within: Duration) -> Result<Reservation, Error> {
        Ok(match self.book(tokens, within).await? {
            Said::Taken { starts_in, .. } => Reservation::Booked { starts_in },
            said => Reservation::Refused { retry_after: said.retry_after() },
        })
    }

    async fn book(&self, tokens: u32, within: Duration) -> Result<Said, Error> {
        self.check(tokens)?;
        if within > WAIT_MAX {
            let (longest, within) = (Units(WAIT_MAX), Units(within));
            let what = format!("tokens can be reserved for at most {longest} ahead, not {within}");
            return Err(self.site.misuse(what));
        }
        self.usable(self.ask(Wish { least: tokens, most: tokens, within }).await)
    }

    /// Takes tokens, and waits for them for at most `within`. It does not poll: at a single server it is one command.
    ///
    /// # Errors
    ///
    /// As [`RateLimit::reserve`]; and if the caller is on no runtime, and the locker's runtime ends meanwhile.
    ///
    /// # Cancel safety
    ///
    /// As [`RateLimit::reserve`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::limits::Rate;
    ///
    /// // One request every 200 ms over all processes.
    /// let fetches = locker.limit("crawler:example.org", Rate::new(5, Duration::from_secs(1)).burst(1));
    /// while fetches.wait(1, Duration::from_secs(60)).await?.is_allowed() {
    ///     // fetch a page
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, tokens: u32, within: Duration) -> Result<Allowance, Error> {
        match self.book(tokens, within).await? {
            Said::Taken { starts_in, left, .. } => {
                if !starts_in.is_zero() {
                    self.site.sleep(starts_in).await;
                    if self.site.is_deserted() {
                        let ended = Reason::NoConnection(OpenError::RuntimeGone);
                        return Err(self.site.unserved([(0, ended)]));
                    }
                }
                Ok(Allowance::Allowed { left })
            }
            said => Ok(Allowance::Refused { retry_after: said.retry_after() }),
        }
    }

    fn check(&self, tokens: u32) -> Result<(), Error> {
        self.site.admit()?;
        self.takeable(tokens).map_err(|wrong| self.site.misuse(wrong))
    }

    fn takeable(&self, tokens: u32) -> Result<(), String> {
        let most = self.share.tokens_max();
        if (1..=most).contains(&tokens) {
            return Ok(());
        }
        let each = if self.site.servers() > 1 { ", the share of each server" } else { "" };
        Err(format!("between 1 and {most} tokens can be taken{each}, not {tokens}"))
    }

    /// One caller at a time, so that all callers wait for the same tokens.
    async fn take_from_stock(&self, tokens: u32) -> Result<Allowance, Error> {
        let called_at = clock::now();
        let mut stock = self.stock.lock().await;
        loop {
            let now = clock::now();
            let kept = if now < stock.good_until { stock.tokens } else { 0 };
            if kept >= tokens {
                stock.tokens -= tokens;
                return Ok(Allowance::Allowed { left: stock.tokens });
            }
            let refused_for = stock.refused_until.since(now);
            if stock.refused > 0 && tokens >= stock.refused && !refused_for.is_zero() {
                return Ok(Allowance::Refused { retry_after: refused_for });
            }
            // A failure since the call began is every caller's: each would wait for servers that do not answer.
            if let Some((_, failures)) = stock.failed.as_ref().filter(|(at, _)| *at > called_at) {
                return Err(self.site.unserved(failures.clone()));
            }
            let [least, most] = [tokens, self.ahead.max(tokens)].map(|wanted| wanted - kept);
            let said = self.ask(Wish { least, most, within: Duration::ZERO }).await;
            if let Err(failures) = &said {
                stock.failed = Some((clock::now(), failures.clone()));
            }
            let said = self.usable(said)?;
            let Said::Taken { tokens: taken, .. } = said else {
                let retry_after = said.retry_after();
                stock.refused = tokens;
                stock.refused_until = now.after(retry_after);
                return Ok(Allowance::Refused { retry_after });
            };
            // Tokens in stock may have expired meanwhile.
            let kept = if clock::now() < stock.good_until { kept } else { 0 };
            let good_for = self.rate.time_of(self.ahead).unwrap_or_default();
            let (all, good_until) = (kept + taken, now.after(good_for));
            let left = all.checked_sub(tokens);
            *stock = Stock { tokens: left.unwrap_or(all), good_until, ..Stock::default() };
            if let Some(left) = left {
                return Ok(Allowance::Allowed { left });
            }
        }
    }

    /// Asks for tokens, and reports the answer to observers.
    async fn ask(&self, wish: Wish) -> Result<Said, Failures> {
        let asked_at = clock::now();
        let said = match self.site.servers() {
            1 => self.ask_one(0, wish).await.map_err(|reason| vec![(0, reason)]),
            servers => self.ask_several(servers, wish).await,
        };
        let outcome = match &said {
            Ok(Said::Taken { .. }) => "allowed",
            Ok(Said::Refused { .. }) => "refused",
            Ok(Said::Other(_)) => return said,
            Err(_) => "failed",
        };
        self.site.note(outcome, asked_at);
        said
    }

    fn usable(&self, said: Result<Said, Failures>) -> Result<Said, Error> {
        match said {
            Ok(Said::Other(rate)) => Err(self.other(rate)),
            said => said.map_err(|failures| self.site.unserved(failures)),
        }
    }

    /// Tokens that no server has at once are booked at the server that has them first.
    async fn ask_several(&self, servers: usize, wish: Wish) -> Result<Said, Failures> {
        let said = self.ask_each(servers, Wish { within: Duration::ZERO, ..wish }).await?;
        match said {
            (server, Said::Refused { after }) if after <= wish.within => {
                match self.ask_one(server, wish).await {
                    Ok(said) if !matches!(said, Said::Refused { .. }) => Ok(said),
                    // Other callers were first, or the server failed.
                    _ => self.ask_each(servers, wish).await.map(|(_, said)| said),
                }
            }
            (_, said) => Ok(said),
        }
    }

    /// Asks servers one after the other until one of them has tokens; otherwise returns the refusal that ends
    /// first. A slow server delays neither the next one nor a refusal: tokens that it still takes are lost.
    async fn ask_each(&self, servers: usize, wish: Wish) -> Result<(usize, Said), Failures> {
        let first = random_below(servers);
        let mut order = (first..servers).chain(0..first).peekable();
        let (mut asked, mut refused, mut failures) = (Vec::new(), None, Failures::new());
        loop {
            asked.extend(order.next().map(|server| {
                Box::pin(async move { (server, self.ask_one(server, wish).await) }) as _
            }));
            let is_last = order.peek().is_none();
            let soon = self.site.command_timeout() / SOON_SHARE;
            let answered = match self.site.timeout(soon, next(&mut asked)).await {
                Ok(answered) => answered,
                Err(_) if is_last && refused.is_some() => None,
                Err(_) => continue,
            };
            match answered {
                None => return refused.ok_or(failures),
                Some((server, Ok(said @ Said::Refused { after }))) => {
                    let is_sooner = |(_, said): &(usize, Said)| after < said.retry_after();
                    refused = refused.filter(|before| !is_sooner(before)).or(Some((server, said)));
                }
                Some((server, Ok(said))) => return Ok((server, said)),
                Some((server, Err(reason))) => failures.push((server, reason)),
            }
        }
    }

    async fn ask_one(&self, server: usize, wish: Wish) -> Result<Said, Reason> {
        let key = self.site.key(SUFFIX);
        let [count, period, burst] = self.share.arguments();
        let [least, most] = [wish.least, wish.most].map(|tokens| tokens.to_string());
        let within = wish.within.as_micros().to_string();
        let words = [&count, &period, &burst, &least, &most, &within].map(String::as_bytes);
        let [count, period, burst, least, most, within] = words;
        let parameters = [b"1", &*key, count, period, burst, least, most, within];
        self.site
            .ask(server, Purpose::Act, &SCRIPT, &parameters, |reply| Said::read(reply, wish))
            .await
    }

    fn other(&self, other: Rate) -> Error {
        let (share, each) = match self.site.servers() {
            1 => (self.share, ""),
            _ => (self.share, ", as each server's share"),
        };
        self.site.misuse(format!(
            "another limit is kept under this name, {other}, and not {share}{each}: give one rate \
             everywhere, or another name"
        ))
    }
}

fn random_below(end: usize) -> usize {
    let random = usize::try_from(clock::random_bits() >> 32).unwrap_or(0);
    random % end
}

impl std::fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimit").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
