//! An election: candidates, one of which leads at a time.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Locker;
use crate::error::Error;
use crate::family::nomination::nominate;
use crate::guard::Guard;
use crate::names::{InvalidName, Names};
use crate::policy::Wait;
use crate::request::{Acquire, LockRequest};

/// An office that one of many candidates has at a time, by [`Locker::elect`].
///
/// It is the lock of its name: the leader holds the lock, the lock's fencing token is the term, and the lock's
/// queue has the candidates. So [`Locker::inspect`], [`Locker::list`] and the command show it like any lock.
#[derive(Clone)]
pub struct Election {
    pub(super) locker: Locker,
    pub(super) names: Result<Names, InvalidName>,
}

/// One candidate's wait for office: set what differs from the locker's defaults, then `.await` it.
///
/// # Errors
///
/// As [`LockRequest`].
///
/// # Cancel safety
///
/// Dropping a campaign while it waits withdraws the candidate. Whatever the servers may have granted goes to the
/// next candidate.
#[must_use = "a candidate campaigns when its campaign is awaited"]
#[derive(Debug)]
pub struct Campaign {
    request: LockRequest,
}

/// A candidate's wait: the future of a [`Campaign`].
///
/// # Cancel safety
///
/// As [`Campaign`] says.
#[must_use = "a candidate campaigns when its campaign is awaited"]
#[derive(Debug)]
pub struct Campaigning {
    acquire: Acquire,
}

/// The office of an election, until its holder releases it, loses it, or drops this.
///
/// It is the [`Guard`] of the election's lock: [`Guard::run`] cancels work when the leader is deposed,
/// [`Guard::lost`] resolves then, and [`Guard::remaining`] says for how long nobody else can lead. The lock's fencing
/// token is the leader's term, larger than that of every leader before: [`Guard::fence`].
#[must_use = "a leadership that is dropped is released"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
}

impl Locker {
    /// An election under this name. [`Locker::lock`] says which names are valid, and
    /// [the guide](crate::guide::family#elections) what is promised.
    ///
    /// The name is that of the lock that the leader holds: use it for nothing else.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let election = locker.elect("scheduler");
    /// loop {
    ///     let lead = election.campaign("host-7").priority(2).await?;
    ///     match lead.run(schedule(lead.fence())).await {
    ///         Ok(()) => return lead.release().await,
    ///         Err(deposed) => eprintln!("{deposed}"),
    ///     }
    /// }
    /// # async fn schedule(fence: leasehold::FencingToken) {}
    /// # }
    /// ```
    #[must_use]
    pub fn elect(&self, name: impl AsRef<[u8]>) -> Election {
        Election { names: self.names(name.as_ref()), locker: self.clone() }
    }
}

impl Election {
    /// Campaigns under this candidate's name, 1 to 256 bytes, which others see while it leads. Give each
    /// candidate a name of its own, and a locker of its own: candidates that share a locker go one after the
    /// other, whatever their priorities.
    ///
    /// It waits until the candidate leads, unless [`Campaign::wait_at_most`] limits that. An outage of the servers ends it, as
    /// it ends any request for a lock: [`Unavailable`](crate::ErrorKind::Unavailable), after a TTL in which too few of them
    /// served, or when the limit is over. Campaign again then, as the example of [`Locker::elect`] does after a loss, with a
    /// pause.
    pub fn campaign(&self, candidate: impl AsRef<str>) -> Campaign {
        let candidate = candidate.as_ref();
        let names = match (candidate.is_empty(), self.names()) {
            (false, names) => names,
            (true, _) => Err(Error::misuse("the name of a candidate must not be empty")),
        };
        let request = self.locker.request(names, Wait::Forever).label(candidate).candidacy(0);
        Campaign { request }
    }

    /// Puts the candidate with this name first in line, whatever its priority: it leads when the present leader
    /// releases the office, or is deposed. Returns whether a candidate with this name waits.
    ///
    /// So a leader releases the office to a named candidate, and an operator moves the office to another host:
    /// nominate, then have the leader release it. A candidate with a priority that campaigns between the two goes
    /// before one with a smaller priority, nominated or not. One that withdraws between the two is passed over.
    ///
    /// Of several servers, one has the line, and all are asked.
    ///
    /// # Errors
    ///
    /// Without an answer, as a request for a lock; then it is safe to nominate again.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the candidate may have been put first.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     election: leasehold::election::Election,
    /// #     lead: leasehold::election::Leadership,
    /// # ) -> Result<(), leasehold::Error> {
    /// if election.nominate("host-8").await? {
    ///     lead.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn nominate(&self, candidate: impl AsRef<str>) -> Result<bool, Error> {
        let engine = self.locker.engine.clone();
        nominate(engine, self.names()?, candidate.as_ref()).await
    }

    fn names(&self) -> Result<Names, Error> {
        self.names.clone().map_err(Error::misuse)
    }
}

impl Campaign {
    /// Sets the priority, 0 without it: of candidates that wait, the one with the highest is the next to lead,
    /// and of equals the one that waits longest. A leader stays, whatever the priority of the candidates that come.
    ///
    /// Priorities count among candidates that wait in the queue at a server, up to 128 with a smaller one.
    /// Without RESP3, or a right to channels, candidates ask now and then, and the first to ask leads.
    pub fn priority(self, priority: u8) -> Self {
        Self { request: self.request.candidacy(priority) }
    }

    /// Sets the TTL of the leader's lease, which is renewed while the leader lives: after a leader's crash,
    /// nobody leads for at most this long. As [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { request: self.request.ttl(ttl) }
    }

    /// Limits the wait. As [`LockRequest::wait_at_most`].
    pub fn wait_at_most(self, limit: Duration) -> Self {
        Self { request: self.request.wait_at_most(limit) }
    }
}

impl IntoFuture for Campaign {
    type Output = Result<Leadership, Error>;
    type IntoFuture = Campaigning;

    fn into_future(self) -> Campaigning {
        Campaigning { acquire: self.request.into_future() }
    }
}

impl Future for Campaigning {
    type Output = Result<Leadership, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let led = Pin::new(&mut self.acquire).poll(context);
        led.map_ok(|guard| Leadership { guard })
    }
}

impl Leadership {
    /// Gives the office back, and waits for the servers' confirmation: the next candidate leads within a round trip.
    /// Dropping the leadership does so without waiting.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), Error> {
        self.guard.release().await
    }

    /// The guard of the election's lock, for what takes one.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.names.as_ref().map(ToString::to_string))
            .finish_non_exhaustive()
    }
}
