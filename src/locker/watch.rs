//! A lock that is watched from outside.

use std::fmt;
use std::time::Duration;

use super::Locker;
use super::onlooker::Onlooker;
use super::view::LockView;
use crate::clock;
use crate::error::{Error, ErrorKind, Holder, Kind, Report, Shared};
use crate::names::{InvalidName, Names};
use crate::policy::{LockState, Moment, Setback};

/// A lock that is watched, without being acquired: see [`Locker::watch`].
#[must_use = "nothing is watched until a change is awaited"]
pub struct LockWatch {
    locker: Locker,
    onlooker: Result<Onlooker, InvalidName>,
    /// The standing that was returned last, and when it was first seen.
    known: Option<(Standing, Moment)>,
}

/// What counts as a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    HeldBy(String),
    /// Shared by several: which of them a server names may change with a renewal.
    Shared(Shared),
    NotHeld,
    /// Too few servers answered.
    Unknown,
    /// No server answered.
    Failed(ErrorKind),
}

impl Standing {
    fn of(view: &LockView) -> Self {
        match view.state {
            LockState::Held => match (&view.holders[0].holder, view.holders[0].shares) {
                (Holder { shared: Some(shared), .. }, shares) if shares != Some(1) => {
                    Self::Shared(*shared)
                }
                (holder, _) => Self::HeldBy(holder.owner.clone()),
            },
            LockState::Free | LockState::Partial => Self::NotHeld,
            LockState::Unknown => Self::Unknown,
        }
    }
}

impl Locker {
    /// Watches the holder of the lock `name`, without acquiring it and without a place in its line.
    ///
    /// Servers push changes, by client tracking (RESP3), over the existing connections. A renewal costs a look: one
    /// script per server. Otherwise each server is asked once when the TTL ends, and every 5 s. A server that cannot
    /// push is asked as [`Builder::retry`](crate::Builder::retry) says. Changes in quick succession may be seen as one:
    /// a lock that changes its holder all the time is looked at once in a pause of that policy.
    ///
    /// Of several servers a quorum counts: a lock that nobody has on a quorum is not held.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let mut leader = locker.watch("leader");
    /// loop {
    ///     match leader.changed().await?.holders.first() {
    ///         Some(leader) => println!("{} leads", leader.holder),
    ///         None => println!("nobody leads"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch(&self, name: impl AsRef<[u8]>) -> LockWatch {
        LockWatch::new(self, self.shown(name.as_ref()))
    }
}

impl LockWatch {
    pub(super) fn new(locker: &Locker, names: Result<Names, InvalidName>) -> Self {
        let onlooker =
            names.map(|names| Onlooker::new(&locker.engine, names, locker.defaults.retry));
        Self { locker: locker.clone(), onlooker, known: None }
    }

    /// Waits for a change, and shows the lock as it is now: another holder, none any more, or servers that stopped
    /// answering or answer again. The first call shows the lock at once.
    ///
    /// A renewal is no change.
    ///
    /// # Errors
    ///
    /// As [`Locker::inspect`]; if no server answers, once: the next call waits until servers answer, or
    /// fail in another way. [`ShutDown`](crate::ErrorKind::ShutDown) after [`Locker::shutdown`], and
    /// [`Misuse`](crate::ErrorKind::Misuse) after the end of the runtime on which the locker lives, each time.
    ///
    /// # Cancel safety
    ///
    /// No change is lost when the future is dropped: the next call shows it.
    pub async fn changed(&mut self) -> Result<LockView, Error> {
        loop {
            let seen = self.look().await;
            let standing = match &seen {
                Ok(view) => Standing::of(view),
                Err(error) if self.is_over(error) => return seen,
                Err(error) => Standing::Failed(error.kind()),
            };
            if self.known.as_ref().is_none_or(|(known, _)| *known != standing) {
                self.known = Some((standing, clock::now()));
                return seen;
            }
        }
    }

    /// How long [`LockWatch::changed`] has seen what it last returned: since when the lock has this holder, or none.
    /// None before the first call.
    ///
    /// The state that the first call returned may be older. A later change is seen within a round trip if servers push
    /// changes, and otherwise at the next look.
    #[must_use]
    pub fn seen_for(&self) -> Option<Duration> {
        self.known.as_ref().map(|(_, seen_at)| clock::now().since(*seen_at))
    }

    /// Waits until nobody holds the lock, which may be so at once, and shows it as it is then.
    ///
    /// Another client may acquire the lock before you do: to get it, request it. While too few servers answer, this
    /// waits on.
    ///
    /// # Errors
    ///
    /// As [`Locker::inspect`], but for servers that are unavailable; [`ShutDown`](crate::ErrorKind::ShutDown) after
    /// [`Locker::shutdown`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// // Another process migrates the database, under this lock.
    /// locker.watch("migration").until_free().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until_free(&mut self) -> Result<LockView, Error> {
        if let Ok(onlooker) = &mut self.onlooker {
            onlooker.hasten();
        }
        loop {
            match self.look().await {
                Ok(view) if Standing::of(&view) == Standing::NotHeld => return Ok(view),
                Err(error) if error.kind() != ErrorKind::Unavailable => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// When the last look began.
    pub(super) fn asked_at(&self) -> Moment {
        self.onlooker.as_ref().map(Onlooker::asked_at).unwrap_or_default()
    }

    /// Whether every later look would fail in the same way.
    pub(super) fn is_over(&self, error: &Error) -> bool {
        let is_undriven = || self.locker.engine.driver.look(|machine| machine.is_undriven);
        error.kind() == ErrorKind::ShutDown || self.onlooker.is_err() || is_undriven()
    }

    /// Waits for the next look, and returns it.
    pub(super) async fn look(&mut self) -> Result<LockView, Error> {
        let onlooker = self.onlooker.as_mut().map_err(Error::misuse)?;
        let Some(looked) = onlooker.look().await else {
            let name = onlooker.names().to_string();
            return Err(Error::new(Kind::ShutDown, name, Report::default()));
        };
        let seen = self.locker.seen(onlooker.names(), looked);
        onlooker.rest(match &seen {
            Ok(view) if view.state == LockState::Unknown => Setback::Failing,
            Ok(view) => {
                Setback::Held(view.holders.first().and_then(|first| first.holder.remaining))
            }
            Err(_) => Setback::Failing,
        });
        seen
    }
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.onlooker.as_ref().map(|onlooker| onlooker.names().to_string());
        f.debug_struct("LockWatch").field("name", &name).field("known", &self.known).finish()
    }
}
