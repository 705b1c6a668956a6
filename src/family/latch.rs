//! A latch that opens when a number of parties have counted down (`scripts/latch.lua`).

use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::asking::Purpose;
use super::parties::{Parties, party_name};
use super::site::Site;
use crate::clock;
use crate::error::Error;
use crate::machine::Script;
use crate::names::Key;
use crate::scripts::script;

static SCRIPT: Script = script!("latch.lua");
pub(super) const PARTIES_SUFFIX: &[u8] = b":latch";
pub(super) const OPEN_SUFFIX: &[u8] = b":open";

/// A latch that all processes share, by [`Locker::latch`](crate::Locker::latch).
#[derive(Clone)]
pub struct Latch {
    site: Site,
    keys: [Key; 2],
    parties: Parties,
}

/// The state of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatchState {
    /// All parties have counted down.
    Open,
    /// Some parties have not counted down.
    Closed {
        /// How many parties have not counted down.
        left: u32,
    },
}

impl LatchState {
    /// Whether all parties have counted down.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Open
    }
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Open,
    /// With the number of parties that are left, if they were counted.
    Closed(Option<u32>),
    Other(i64),
}

impl Latch {
    pub(crate) fn new(site: Site, parties: u32) -> Self {
        let mut site = site;
        site.refuse_several_servers("no count is agreed on");
        let parties = Parties::new(&mut site, parties);
        let keys = [PARTIES_SUFFIX, OPEN_SUFFIX].map(|suffix| site.key(suffix));
        Self { site, keys, parties }
    }

    /// Sets how long the latch is remembered after a party has counted down, and after it has opened: 24 h by
    /// default; 1 s to 366 days. After that the latch is closed again, and no party has counted down.
    #[must_use]
    pub fn kept_for(mut self, keep: Duration) -> Self {
        self.parties = self.parties.kept_for(&mut self.site, keep);
        self
    }

    /// Counts a party down. A party counts once, however often this is called: give each a name of its own,
    /// of 1 to 256 bytes.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, number of parties or time, for several servers,
    /// and if a latch with another number of parties is kept under the name. Without an answer, as a request for
    /// a lock; then it is safe to count the party down again.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the party may have counted down.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let ready = locker.latch("deploy:42", 3);
    /// ready.count_down("worker-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count_down(&self, party: impl AsRef<[u8]>) -> Result<LatchState, Error> {
        let (party, asked_at) = (party.as_ref(), clock::now());
        self.site.admit()?;
        party_name(party).map_err(|wrong| self.site.misuse(wrong))?;
        let said = self.ask(Purpose::Act, "down", party).await?;
        self.site.note("counted", asked_at);
        Ok(said)
    }

    /// The state of the latch. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Latch::count_down`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn state(&self) -> Result<LatchState, Error> {
        self.ask(Purpose::Act, "look", b"").await
    }

    /// Waits until the latch is open, for at most `within`; the server pushes that.
    ///
    /// # Errors
    ///
    /// As [`Latch::count_down`], at most one command timeout after the limit; and
    /// [`ShutDown`](crate::ErrorKind::ShutDown) when the locker is shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let ready = locker.latch("deploy:42", 3);
    /// if !ready.wait(std::time::Duration::from_secs(60)).await?.is_open() {
    ///     eprintln!("not all are ready");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, within: Duration) -> Result<LatchState, Error> {
        let began_at = clock::now();
        let watch = self.site.watch(&self.keys[1]);
        let ask = || async {
            let progress = self.ask(Purpose::Watch(&watch), "wait", b"").await?;
            Ok(progress.is_open().then_some(progress))
        };
        let opened = self.site.wait_until(&watch, within, ask).await?;
        let progress = match opened {
            Some(progress) => progress,
            None => self.site.in_limit(self.site.command_timeout(), self.state()).await?,
        };
        self.site.note(if progress.is_open() { "open" } else { "closed" }, began_at);
        Ok(progress)
    }

    async fn ask(
        &self,
        purpose: Purpose<'_>,
        how: &str,
        party: &[u8],
    ) -> Result<LatchState, Error> {
        self.site.admit()?;
        let asked_at = clock::now();
        let parties = Decimal::new(self.parties.number.into());
        let keep = self.parties.keep_ms();
        let [counted, open] = &self.keys;
        let parameters = [b"2", &**counted, open, how.as_bytes(), &parties, &keep, party];
        let said = self.site.ask_twice(purpose, &SCRIPT, &parameters, Said::read).await;
        match said {
            Ok(Said::Open) => Ok(LatchState::Open),
            Ok(Said::Closed(left)) => {
                Ok(LatchState::Closed { left: left.unwrap_or(self.parties.number) })
            }
            Ok(Said::Other(other)) => Err(self.parties.misfit(&self.site, other)),
            Err(reason) => {
                self.site.note("failed", asked_at);
                Err(self.site.unserved([(0, reason)]))
            }
        }
    }
}

impl Said {
    /// Reads the reply of `latch.lua`.
    fn read(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        match items.get(1..)? {
            [Frame::Bulk(word)] if word == "open" => Some(Self::Open),
            [Frame::Bulk(word), Frame::Integer(-1)] if word == "closed" => Some(Self::Closed(None)),
            [Frame::Bulk(word), Frame::Integer(left @ 1..)] if word == "closed" => {
                Some(Self::Closed(Some(u32::try_from(*left).ok()?)))
            }
            [Frame::Bulk(word), Frame::Integer(other @ 0..)] if word == "other" => {
                Some(Self::Other(*other))
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for Latch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latch").field("parties", &self.parties.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
