//! The grace: the time after a failover in which a primary grants nothing new, and holders report their leases to it.
//!
//! A promoted replica may lack the last writes of the former primary: a held lock is free there, or a released lock is
//! taken. A lease that it lacks ends within the longest TTL in use, unless it is renewed at this primary. So a primary
//! has a *grace* of that length when its reign begins:
//!
//! - **Nothing new is granted in it**, whether the lock is free there or not, by a reply or a push. A lock that is passed
//!   on within a process goes on, with a token above its predecessor's: no other client has it. (The machine passes on
//!   only without a command.)
//! - **Holders report their leases**, by `repair`, which counts as an extension. It creates a missing key: no
//!   other client can have been granted the lock. It takes a key over if the counter is below the holder's
//!   token: the lease of that key had ended when the larger token was minted. It takes over no other key: of two owners
//!   in one process the earlier may repeat its report late, and the victim of a steal may not know of it. It raises
//!   counters to the holders' tokens.
//! - **A report is too late once the grace is over by the server's own clock**, and the script says so: a report that was
//!   sent in time may arrive after another client was granted the lock.
//! - **No release hands a lock on in it**: the key may have come back with the replica, although it was released,
//!   and another client may hold the lock.
//! - **The reign begins with the marker**, written by the first client that finds none of this run and this
//!   replication id (`scripts/reign.lua`): the server has been promoted by then. The run alone is not enough: a server
//!   that is demoted and promoted again is the same run. All later clients find the marker, so that the grace
//!   ends, and for all at once.
//! - **Its end is counted from the reply**, before which the server has read its clock, never from the command.
//! - **A connection that met a replica has learned no reign**, and grants nothing once the replica is promoted.
//! - **A learned reign lapses** within a second of its last use, and only another query of it renews it: a server
//!   that is demoted and promoted again closes no connections, and refuses nothing on a connection that is silent
//!   meanwhile. Until that query is answered no new lock is requested, no release that hands on is repeated, and
//!   a missing lease is not believed.
//! - **A grant is judged again when the reply comes**: a request of the former reign may have been under way while
//!   the server was a replica, and arrive in the grace of the next reign.
//! - **Tokens go on above those that are lost**: the grace is longer than the most by which they may be ahead of the
//!   proposals to the successor ([`TOKENS_APART`]), however short leases are.
//!
//! The model `policy/model/grace.rs` checks this, and finds a breach without each of the rules. A restart begins a reign,
//! too, so a grace also protects leases that a restarted server forgets.
//!
//! It cannot protect from: a primary that still serves clients when another is promoted; clients without the
//! setting, or with leases longer than the stated longest TTL; a server's clock that is set forward within the
//! grace, or back while a report is under way; a server that is demoted and promoted again between two uses
//! of a connection that are less than a second apart, or another server behind a proxy that keeps the connection; keys
//! that are lost, or come to another primary, without a failover (`FLUSHALL`, slots that are moved by hand). Tokens can
//! fall if the clocks of the two servers are more than a second apart, or a wrong clock has
//! driven a counter ahead: exclusion needs neither. A lease without a token takes over no key that came back: it
//! ends. So does a lease whose lock is taken by an acquire that was under way since an earlier reign of the server.

use std::time::Duration;

use super::Moment;

/// How far the token of a lost lease may be ahead of a proposal to the successor: the token may be a second
/// ahead of its server's clock, the proposal a second behind the successor's, and the two clocks a second apart.
pub(super) const TOKENS_APART: Duration = Duration::from_secs(3);
/// If a reign's last use is older, it is queried again before a new request, so that the reply comes in time to be
/// believed.
const FRESH: Duration = Duration::from_millis(500);
/// How long a learned reign is good without use: a server that is demoted and promoted again is a
/// replica for longer.
const SURE: Duration = Duration::from_secs(1);

/// The reign of a primary, as a connection to it has learned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reign {
    /// The end of its grace.
    until: Moment,
    /// The same by the server's clock, in microseconds.
    ends_at: u64,
    /// When the last command was sent that only a primary would have answered so.
    pub(super) used_at: Moment,
}

/// The length of a grace if leases last for at most `longest_ttl`.
pub(crate) fn length(longest_ttl: Duration) -> Duration {
    longest_ttl.max(TOKENS_APART)
}

/// Whether a use at `at` allows new requests without another query.
pub(crate) fn is_recent(at: Moment, now: Moment) -> bool {
    now.since(at) < FRESH
}

impl Reign {
    /// The reign that began at `began`, by a query sent at `asked_at` and answered at `now`; the server's clock was
    /// `clock` (microseconds, as `began`). Leases last for at most `longest_ttl`.
    pub(crate) fn of(
        began: u64,
        clock: u64,
        longest_ttl: Duration,
        asked_at: Moment,
        now: Moment,
    ) -> Self {
        let grace = length(longest_ttl);
        let passed = Duration::from_micros(clock.saturating_sub(began));
        let micros = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
        Self {
            until: now.after(grace.saturating_sub(passed)),
            ends_at: began.saturating_add(micros),
            used_at: asked_at,
        }
    }

    /// How much longer nothing new is granted.
    pub(crate) fn wait(self, now: Moment) -> Duration {
        self.until.since(now)
    }

    /// Whether a new request may be sent, or its grant be believed, at `now`.
    pub(crate) fn grants(self, now: Moment) -> bool {
        self.wait(now).is_zero() && self.is_sure(now)
    }

    /// If holders have to report instead of extending: until when a report is in time, by the server's clock in
    /// microseconds.
    pub(crate) fn reasserted_by(self, now: Moment) -> Option<u64> {
        (now < self.until).then_some(self.ends_at)
    }

    /// Whether the reign is still good without another query.
    pub(crate) fn is_sure(self, now: Moment) -> bool {
        now.since(self.used_at) < SURE
    }

    /// Whether a command sent now is likely answered while the reign is good.
    pub(crate) fn is_fresh(self, now: Moment) -> bool {
        is_recent(self.used_at, now)
    }

    /// Whether both are the same reign.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.ends_at == other.ends_at
    }

    /// Notes that the server has carried out a write that was sent at `asked_at` over this connection.
    pub(crate) fn is_used(&mut self, asked_at: Moment) {
        // Else the server may have begun another reign meanwhile.
        if self.is_sure(asked_at) {
            self.used_at = self.used_at.max(asked_at);
        }
    }
}

/// When the reign of this marker began, by the server's clock in microseconds.
pub(crate) fn began(marker: &[u8]) -> Option<u64> {
    let mut words = std::str::from_utf8(marker).ok()?.split(' ').skip(2);
    let began = words.next()?.parse().ok();
    began.filter(|_| words.next().is_none())
}

#[cfg(test)]
mod tests;
