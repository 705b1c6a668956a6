//! An election, as processes see it that are no candidates.

use std::time::Duration;

use super::elect::Election;
use super::view::{HolderView, LockView};
use super::watch::LockWatch;
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::fencing::FencingToken;
use crate::policy::{LockState, Moment, drift};

/// A lease counts as renewed if its end moves by more than this part of its time left: looks at an unchanged lease
/// differ by the time that replies take.
const RENEWED_SHARE: u32 = 16;

/// An election that is watched: see [`Election::watch`].
#[must_use = "nothing is watched until a change is awaited"]
#[derive(Debug)]
pub struct ElectionWatch {
    watch: LockWatch,
    known: Option<Result<LeaderState, ErrorKind>>,
}

/// The leader, as far as the servers show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderState {
    /// This candidate leads.
    Led(Leader),
    /// Nobody leads.
    Vacant,
    /// Too few servers answered.
    Unknown,
}

/// The leader, its term, and the moment until which it leads at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    candidate: String,
    fence: Option<FencingToken>,
    until: Moment,
}

impl LeaderState {
    fn of(view: &LockView, asked_at: Moment) -> Self {
        match view.state {
            LockState::Held => Self::Led(Leader::of(&view.holders[0], asked_at)),
            LockState::Free | LockState::Partial => Self::Vacant,
            LockState::Unknown => Self::Unknown,
        }
    }
}

impl Leader {
    /// The name under which it campaigned.
    #[must_use]
    pub fn candidate(&self) -> &str {
        &self.candidate
    }

    /// Its fencing token, which is its term; none if the election's lock is held without a token, by something other
    /// than a candidate.
    #[must_use]
    pub fn fence(&self) -> Option<FencingToken> {
        self.fence
    }

    /// For how long, from now, nobody else can lead unless this leader releases the office: a safe estimate from its
    /// lease, as the servers last showed it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.until.since(clock::now())
    }

    fn of(first: &HolderView, asked_at: Moment) -> Self {
        let left = first.holder.remaining.unwrap_or_default();
        Self {
            candidate: first.holder.label.clone().unwrap_or_default(),
            // The smallest: a server that got the lease back by a repair may have accepted a larger token before.
            fence: first.tokens.first().copied().map(FencingToken::new),
            until: asked_at.after(left.saturating_sub(drift(left))),
        }
    }
}

impl Election {
    /// Watches the leader, without being a candidate. As with [`Locker::watch`](crate::Locker::watch), servers push
    /// changes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use leasehold::election::LeaderState;
    ///
    /// let mut watch = locker.elect("scheduler").watch();
    /// loop {
    ///     match watch.changed().await? {
    ///         LeaderState::Led(leader) => println!("{} leads for {:?}", leader.candidate(), leader.remaining()),
    ///         _ => println!("nobody is known to lead"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch(&self) -> ElectionWatch {
        ElectionWatch { watch: LockWatch::new(&self.locker, self.names.clone()), known: None }
    }
}

impl ElectionWatch {
    /// Waits for a change, and shows the leader now: another leader, none any more, or one whose lease was renewed
    /// and lasts longer. The first call shows the leader at once. Terms never fall.
    ///
    /// The leader may have changed when you read this. A resource that compares terms makes that harmless.
    ///
    /// # Errors
    ///
    /// As [`LockWatch::changed`].
    ///
    /// # Cancel safety
    ///
    /// No change is lost when the future is dropped: the next call shows it.
    pub async fn changed(&mut self) -> Result<LeaderState, Error> {
        loop {
            let seen = match self.watch.look().await {
                Err(error) if self.watch.is_over(&error) => return Err(error),
                seen => seen.map(|view| LeaderState::of(&view, self.watch.asked_at())),
            };
            let standing = seen.as_ref().map(Clone::clone).map_err(Error::kind);
            if self.known.as_ref().is_none_or(|known| is_news(known, &standing)) {
                self.known = Some(standing);
                return seen;
            }
        }
    }
}

/// Whether the second differs from the first by more than two looks at one lease do.
fn is_news(known: &Result<LeaderState, ErrorKind>, seen: &Result<LeaderState, ErrorKind>) -> bool {
    match (known, seen) {
        (Ok(LeaderState::Led(known)), Ok(LeaderState::Led(seen))) => {
            let lasts_longer = seen.until.since(known.until) > seen.remaining() / RENEWED_SHARE;
            lasts_longer || (&known.candidate, known.fence) != (&seen.candidate, seen.fence)
        }
        _ => known != seen,
    }
}

#[cfg(test)]
mod tests;
