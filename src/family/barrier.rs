//! A barrier that lets all parties go when a number of them have arrived, again and again
//! (`scripts/barrier.lua`).

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

pub(crate) static BARRIER: Script = script!("barrier.lua");
pub(super) const ARRIVED_SUFFIX: &[u8] = b":barrier";
pub(super) const PASSED_SUFFIX: &[u8] = b":passed";

/// A barrier that all processes share, by [`Locker::barrier`](crate::Locker::barrier).
#[derive(Clone)]
pub struct Barrier {
    site: Site,
    keys: [Key; 2],
    parties: Parties,
}

/// One party of a barrier, by [`Barrier::party`]. It knows for which generation it has arrived.
#[derive(Clone, Debug)]
pub struct Party {
    barrier: Barrier,
    name: Box<[u8]>,
    /// The generation that it arrives for, once that is known.
    generation: Option<u64>,
}

/// The progress of one generation of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Generation {
    /// The generation's number, from 1.
    pub generation: u64,
    /// How many parties have not arrived yet.
    pub left: u32,
}

impl Generation {
    /// Whether all parties have arrived: they are let go.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.left == 0
    }
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Open(u64),
    /// With the number of parties that are left, if they were counted.
    Closed(u64, Option<u32>),
    Other(i64),
}

impl Barrier {
    pub(crate) fn new(site: Site, parties: u32) -> Self {
        let mut site = site;
        site.refuse_several_servers("no count is agreed on");
        let parties = Parties::new(&mut site, parties);
        let keys = [ARRIVED_SUFFIX, PASSED_SUFFIX].map(|suffix| site.key(suffix));
        Self { site, keys, parties }
    }

    /// Sets how long arrivals are remembered after the last one: 24 h by default; 1 s to 366 days. After that no
    /// party counts as arrived.
    #[must_use]
    pub fn kept_for(mut self, keep: Duration) -> Self {
        self.parties = self.parties.kept_for(&mut self.site, keep);
        self
    }

    /// One of the parties: give each a name of its own, of 1 to 256 bytes. A process that restarts under the same
    /// name is the same party, and goes on in the present generation.
    #[must_use]
    pub fn party(&self, name: impl AsRef<[u8]>) -> Party {
        let (name, mut barrier) = (name.as_ref(), self.clone());
        if let Err(wrong) = party_name(name) {
            barrier.site.refuse(wrong);
        }
        Party { barrier, name: name.into(), generation: None }
    }

    /// The progress of the present generation. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Party::arrive`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn generation(&self) -> Result<Generation, Error> {
        self.ask(Purpose::Act, "look", 0, b"").await
    }

    async fn ask(
        &self,
        purpose: Purpose<'_>,
        how: &str,
        generation: u64,
        party: &[u8],
    ) -> Result<Generation, Error> {
        self.site.admit()?;
        let asked_at = clock::now();
        let [parties, generation] = [self.parties.number.into(), generation].map(Decimal::new);
        let keep = self.parties.keep_ms();
        let [arrived, passed] = &self.keys;
        let parameters =
            [b"2", &**arrived, passed, how.as_bytes(), &parties, &keep, &generation, party];
        let said = self.site.ask_twice(purpose, &BARRIER, &parameters, Said::read).await;
        match said {
            Ok(Said::Open(generation)) => Ok(Generation { generation, left: 0 }),
            Ok(Said::Closed(generation, left)) => {
                Ok(Generation { generation, left: left.unwrap_or(self.parties.number) })
            }
            Ok(Said::Other(other)) => Err(self.parties.misfit(&self.site, other)),
            Err(reason) => {
                self.site.note("failed", asked_at);
                Err(self.site.unserved([(0, reason)]))
            }
        }
    }
}

impl Party {
    /// Arrives, without waiting for the others. A party counts once in a generation, however often it arrives.
    ///
    /// Once all have arrived ([`Generation::is_open`]), this party's next call arrives for the next generation.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, number of parties or time, for several servers,
    /// and if a barrier with another number of parties is kept under the name.
    /// Without an answer, as a request for a lock; then it is safe to arrive again.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the party may have arrived. Its next call goes on in the same generation.
    pub async fn arrive(&mut self) -> Result<Generation, Error> {
        let asked_at = clock::now();
        // An arrival without a generation would count in the next one if it was delivered late.
        let generation = match self.generation {
            Some(generation) => generation,
            None => self.barrier.generation().await?.generation,
        };
        self.generation = Some(generation);
        let arrived = self.barrier.ask(Purpose::Act, "arrive", generation, &self.name).await?;
        self.barrier.site.note("arrived", asked_at);
        Ok(self.passed(arrived))
    }

    /// Arrives, and waits until all parties have arrived, for at most `within`; the server pushes that.
    ///
    /// After a wait that ends before, the party still counts as arrived: call this again to go on waiting for the
    /// same generation.
    ///
    /// # Errors
    ///
    /// As [`Party::arrive`], at most one command timeout after the limit; and
    /// [`ShutDown`](crate::ErrorKind::ShutDown) when the locker is shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// As [`Party::arrive`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let mut worker = locker.barrier("rounds", 3).party("worker-1");
    /// for round in 0..10 {
    ///     compute(round).await;
    ///     while !worker.wait(Duration::from_secs(60)).await?.is_open() {
    ///         eprintln!("not all have finished round {round}");
    ///     }
    /// }
    /// # async fn compute(round: u32) {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&mut self, within: Duration) -> Result<Generation, Error> {
        let (began_at, site) = (clock::now(), self.barrier.site.clone());
        let arrived = site.in_limit(within, self.arrive()).await?;
        let left = within.saturating_sub(clock::now().since(began_at));
        if arrived.is_open() || left.is_zero() {
            return Ok(arrived);
        }
        let (barrier, generation) = (&self.barrier, arrived.generation);
        let watch = site.watch(&barrier.keys[1]);
        let ask = || async {
            let seen = barrier.ask(Purpose::Watch(&watch), "wait", generation, b"").await?;
            Ok(seen.is_open().then_some(seen))
        };
        let opened = site.wait_until(&watch, left, ask).await?;
        let seen = match opened {
            Some(seen) => seen,
            None => {
                let look = barrier.ask(Purpose::Act, "look", generation, b"");
                site.in_limit(site.command_timeout(), look).await?
            }
        };
        site.note(if seen.is_open() { "open" } else { "closed" }, began_at);
        Ok(self.passed(seen))
    }

    /// Lets the next call be for the next generation if this one is complete.
    fn passed(&mut self, seen: Generation) -> Generation {
        if seen.is_open() {
            self.generation = Some(seen.generation + 1);
        }
        seen
    }
}

impl Said {
    /// Reads the reply of `barrier.lua`.
    fn read(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        let (Frame::Bulk(word), rest) = items.get(1..)?.split_first()? else { return None };
        let number = |number: &i64| u64::try_from(*number).ok();
        match (&**word, rest) {
            (b"open", [Frame::Integer(generation @ 1..)]) => Some(Self::Open(number(generation)?)),
            (b"closed", [Frame::Integer(generation @ 1..), Frame::Integer(-1)]) => {
                Some(Self::Closed(number(generation)?, None))
            }
            (
                b"closed" | b"caught up",
                [Frame::Integer(generation @ 1..), Frame::Integer(left @ 1..)],
            ) => Some(Self::Closed(number(generation)?, Some(u32::try_from(*left).ok()?))),
            (b"other", [Frame::Integer(other @ 0..)]) => Some(Self::Other(*other)),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Barrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
