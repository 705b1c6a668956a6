//! The figures of a locker at one moment.

use std::fmt;
#[cfg(feature = "grace")]
use std::time::Duration;

use super::histogram::Latencies;
use crate::policy::Loss;
#[cfg(feature = "grace")]
use crate::policy::Units;

/// What a [`Locker`](crate::Locker) has done since it was connected, and how it stands now.
///
/// Its text is a few lines for a log. Counting never stops the counted: figures that change while
/// the snapshot is taken may be a moment apart from each other.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Leases held now.
    pub held: u64,
    /// Requests that wait for their turn in this process now.
    pub waiting: u64,
    /// Attempts put to the servers; a request that waits may make several.
    pub attempts: u64,
    /// Requests that were granted their lease.
    pub granted: u64,
    /// Attempts that were refused since another held the lock.
    pub contended: u64,
    /// Requests whose wait ran out while another held the lock.
    pub timed_out: u64,
    /// Attempts whose answer never came: a server may have carried them out. They do not count as
    /// granted, and whatever they took is given back.
    pub unknown: u64,
    /// Requests that failed for another reason than a holder, such as too few servers that served in time.
    pub failed: u64,
    /// Leases given back by their holders.
    pub released: u64,
    /// Of the released leases, those that went straight to a waiter of this process.
    pub handed_over: u64,
    /// Of the released leases, those that went to a ticket ([`Guard::into_ticket`](crate::Guard::into_ticket)).
    pub ticketed: u64,
    /// Grants that adopted a ticket's lease ([`Locker::adopt`](crate::Locker::adopt)).
    pub adopted: u64,
    /// Grants that took the lock from another holder
    /// ([`LockRequest::steal`](crate::LockRequest::steal)).
    pub stolen: u64,
    /// Waiters that a server's message woke.
    pub woken: u64,
    /// Renewals that a quorum confirmed.
    pub renewed: u64,
    /// Renewals that no quorum confirmed. A lease may have several and still be held.
    pub renewals_failed: u64,
    /// Times that a lease was given back to a server that had lost it.
    pub repaired: u64,
    /// Times that a connection logged in again before its credentials ended.
    pub logins_renewed: u64,
    /// Times that a connection could not log in again: the provider gave no credentials, or the server refused them. The
    /// login is tried again, and the connection stays as it is.
    pub logins_failed: u64,
    pub(super) losses: [u64; Loss::ALL.len()],
    /// From the request to the grant.
    pub wait: Latencies,
    /// From the grant to the release. Leases that were lost do not count.
    pub hold: Latencies,
    /// How long renewals took to be confirmed.
    pub renewal_round_trip: Latencies,
    /// How each server stands, in the order in which they were configured.
    pub servers: Vec<ServerStats>,
}

impl Stats {
    /// Leases that ended for this reason before they were given back.
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

    /// Leases that ended before they were given back, for any reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.iter().sum()
    }
}

/// How one server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Its address, without credentials.
    pub server: String,
    /// Whether the server is asked.
    pub breaker: BreakerState,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// How much longer it grants nothing new, as it became the primary a short time ago
    /// ([`Builder::failover_grace`](crate::Builder::failover_grace)).
    #[cfg(feature = "grace")]
    pub grace: Option<Duration>,
}

/// Whether a server is asked, judged by how it answered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// It is asked, as nearly always.
    Closed,
    /// It did not answer several times in a row, and is not asked for a while.
    Open,
    /// One question is let through, and its answer decides.
    HalfOpen,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, granted, released, handed_over, .. } = self;
        write!(f, "leases: {held} held, {granted} granted, {released} released ")?;
        writeln!(f, "({handed_over} handed over), {} lost{}", self.lost(), Reasons(self))?;
        let Self { ticketed, adopted, stolen, .. } = self;
        if ticketed + adopted + stolen > 0 {
            writeln!(f, "taken over: {ticketed} to tickets, {adopted} adopted, {stolen} stolen")?;
        }
        let Self { attempts, contended, timed_out, unknown, failed, waiting, woken, .. } = self;
        write!(f, "requests: {waiting} waiting, {attempts} attempts, {contended} contended, ")?;
        writeln!(f, "{timed_out} timed out, {unknown} unknown, {failed} failed, {woken} woken")?;
        let Self { renewed, renewals_failed, repaired, .. } = self;
        writeln!(f, "renewals: {renewed}, {renewals_failed} failed, {repaired} repairs")?;
        let Self { logins_renewed, logins_failed, .. } = self;
        if logins_renewed + logins_failed > 0 {
            writeln!(f, "logins: {logins_renewed} renewed, {logins_failed} failed")?;
        }
        writeln!(f, "wait: {}", self.wait)?;
        writeln!(f, "hold: {}", self.hold)?;
        write!(f, "renewal round trip: {}", self.renewal_round_trip)?;
        self.servers.iter().try_for_each(|server| write!(f, "\nserver {server}"))
    }
}

/// Why leases were lost, where any were.
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
