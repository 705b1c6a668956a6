//! The figures of a locker at one moment.

use std::fmt;
#[cfg(feature = "grace")]
use std::time::Duration;

use super::histogram::Latencies;
use crate::policy::Loss;
#[cfg(feature = "grace")]
use crate::policy::Units;

/// What a [`Locker`](crate::Locker) has done since it connected, and its present state.
///
/// Its text is a few lines for a log. Counting never waits for a snapshot: figures that change meanwhile may be a
/// moment apart.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Leases held now.
    pub held: u64,
    /// Requests that wait in this process now.
    pub waiting: u64,
    /// Attempts sent to the servers; a waiting request may make several.
    pub attempts: u64,
    /// Requests that were granted their lease.
    pub granted: u64,
    /// Attempts that were refused because another client held the lock.
    pub contended: u64,
    /// Requests whose wait ran out while another client held the lock.
    pub timed_out: u64,
    /// Attempts without an answer: a server may have carried them out. They do not count as granted, and whatever they
    /// were granted is released.
    pub unknown: u64,
    /// Requests that failed for a reason other than contention, such as too few servers in time.
    pub failed: u64,
    /// Leases that their holders released.
    pub released: u64,
    /// The released leases that were passed on to a waiter of this process.
    pub handed_over: u64,
    /// The released leases that were left to a ticket ([`Guard::into_ticket`](crate::Guard::into_ticket)).
    #[cfg(any(test, feature = "takeover"))]
    pub ticketed: u64,
    /// Grants that adopted a ticket's lease ([`Locker::adopt`](crate::Locker::adopt)).
    #[cfg(any(test, feature = "takeover"))]
    pub adopted: u64,
    /// Grants that took the lock from another holder
    /// ([`LockRequest::steal`](crate::LockRequest::steal)).
    #[cfg(any(test, feature = "takeover"))]
    pub stolen: u64,
    /// Waiters that a server's message woke.
    pub woken: u64,
    /// Renewals that a quorum confirmed.
    pub renewed: u64,
    /// Renewals that no quorum confirmed. A lease may have several of them and still be held.
    pub renewals_failed: u64,
    /// How often repair gave a lease back to a server that had lost it.
    pub repaired: u64,
    /// How often a connection logged in again before its credentials expired.
    #[cfg(any(test, feature = "credentials"))]
    pub logins_renewed: u64,
    /// How often a connection could not log in again: the provider returned no credentials, or the server refused them.
    /// The login is tried again, and the connection stays as it is.
    #[cfg(any(test, feature = "credentials"))]
    pub logins_failed: u64,
    pub(super) losses: [u64; Loss::ALL.len()],
    /// From the request to the grant.
    pub wait: Latencies,
    /// From the grant to the release, without lost leases.
    pub hold: Latencies,
    /// How long renewals took to be confirmed.
    pub renewal_round_trip: Latencies,
    /// The state of each server, in the order of the configuration.
    pub servers: Vec<ServerStats>,
}

impl Stats {
    /// Leases that were lost for this reason before their release.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(locker: leasehold::Locker) {
    /// use leasehold::Loss;
    ///
    /// let stats = locker.stats();
    /// if stats.lost() > stats.losses(Loss::ShutDown) {
    ///     eprintln!("work ran without its lock: {stats}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn losses(&self, reason: Loss) -> u64 {
        self.losses[reason as usize]
    }

    /// Leases that were lost before their release, for any reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.iter().sum()
    }
}

/// The state of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Its address, without credentials.
    pub server: String,
    /// Whether the library sends commands to it.
    pub breaker: BreakerState,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// How much longer it grants nothing new, because it became the primary a short time ago
    /// ([`Builder::failover_grace`](crate::Builder::failover_grace)).
    #[cfg(feature = "grace")]
    pub grace: Option<Duration>,
}

/// Whether the library sends commands to a server, by its earlier answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// It does: the normal state.
    Closed,
    /// Not for a while, because several commands in a row had no answer.
    Open,
    /// One command is sent, and its answer decides.
    HalfOpen,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, granted, released, handed_over, .. } = self;
        write!(f, "leases: {held} held, {granted} granted, {released} released ")?;
        writeln!(f, "({handed_over} handed over), {} lost{}", self.lost(), Reasons(self))?;
        #[cfg(any(test, feature = "takeover"))]
        if self.ticketed + self.adopted + self.stolen > 0 {
            let Self { ticketed, adopted, stolen, .. } = self;
            writeln!(f, "taken over: {ticketed} to tickets, {adopted} adopted, {stolen} stolen")?;
        }
        let Self { attempts, contended, timed_out, unknown, failed, waiting, woken, .. } = self;
        write!(f, "requests: {waiting} waiting, {attempts} attempts, {contended} contended, ")?;
        writeln!(f, "{timed_out} timed out, {unknown} unknown, {failed} failed, {woken} woken")?;
        let Self { renewed, renewals_failed, repaired, .. } = self;
        writeln!(f, "renewals: {renewed}, {renewals_failed} failed, {repaired} repairs")?;
        #[cfg(any(test, feature = "credentials"))]
        if self.logins_renewed + self.logins_failed > 0 {
            let Self { logins_renewed, logins_failed, .. } = self;
            writeln!(f, "logins: {logins_renewed} renewed, {logins_failed} failed")?;
        }
        writeln!(f, "wait: {}", self.wait)?;
        writeln!(f, "hold: {}", self.hold)?;
        write!(f, "renewal round trip: {}", self.renewal_round_trip)?;
        self.servers.iter().try_for_each(|server| write!(f, "\nserver {server}"))
    }
}

/// The reasons of lost leases, if any.
struct Reasons<'a>(&'a Stats);

impl fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = Loss::ALL.map(|reason| (reason, self.0.losses(reason)));
        let mut before = " (";
        for (reason, count) in some.into_iter().filter(|&(_, count)| count > 0) {
            write!(f, "{before}{count}: {reason}")?;
            before = "; ";
        }
        if self.0.lost() > 0 { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Display for ServerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = if self.connected { "connected" } else { "not connected" };
        write!(f, "{}: {connected}, breaker {}", self.server, self.breaker)?;
        #[cfg(feature = "grace")]
        if let Some(left) = self.grace {
            write!(f, ", grants nothing new for {:.1}", Units(left))?;
        }
        Ok(())
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        })
    }
}
