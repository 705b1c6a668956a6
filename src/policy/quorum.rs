use std::time::Duration;

/// The round trips of the other servers, and the time beside them, that a server has to answer if
/// they could do without its answer.
const SLOW_ROUND_TRIPS: u32 = 4;
const SLOW_FLOOR: Duration = Duration::from_millis(2);

/// How long a server has to answer if the others could do without its answer; the slowest of
/// them took `round_trip`.
pub(crate) fn patience(round_trip: Duration) -> Duration {
    round_trip * SLOW_ROUND_TRIPS + SLOW_FLOOR
}

/// The votes of servers are bits of one number.
const SERVERS_MAX: usize = 64;

/// How many of all servers have to grant a lease.
///
/// A single server is a quorum of one out of one, without code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    servers: usize,
    needed: usize,
}

/// The result of the votes counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both outcomes are still possible.
    #[default]
    Pending,
    /// Enough servers granted.
    Won,
    /// Too few servers are left that could still grant.
    Lost,
}

/// How many of N servers with a quorum of q may fail, and how.
///
/// Two quorums of q share at least 2q - N servers. As long as one of these still knows the
/// first lease, a second cannot be granted: so 2q - N - 1 of them may forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tolerance {
    /// k = 2q - N - 1: how many servers may lose their memory, or expire keys early, within a
    /// lease's life before two holders become possible.
    pub memory_losses: usize,
    /// f = N - q: how many servers may be down before no lock can be taken.
    pub outages: usize,
}

impl Quorum {
    /// A quorum of `needed` of `servers`; by default the smallest majority.
    pub(crate) fn new(servers: usize, needed: Option<usize>) -> Result<Self, String> {
        let needed = needed.unwrap_or(servers / 2 + 1);
        if servers == 0 {
            Err("no server was given: give at least one URL".to_owned())
        } else if servers > SERVERS_MAX {
            Err(format!("{servers} servers were given: at most {SERVERS_MAX} can vote"))
        } else if needed > servers {
            let plural = if servers == 1 { "" } else { "s" };
            Err(format!("quorum {needed} exceeds the {servers} server{plural} given"))
        } else if needed <= servers / 2 {
            Err(format!(
                "quorum {needed} is no majority of {servers} servers, so two clients could hold the \
                 same lock: use at least {}",
                servers / 2 + 1
            ))
        } else {
            Ok(Self { servers, needed })
        }
    }

    /// A quorum of all `servers`, at least one.
    pub(crate) fn all(servers: usize) -> Self {
        Self { servers, needed: servers }
    }

    /// The verdict after `granted` grants and `denied` votes that can no longer become grants.
    pub(crate) fn verdict(self, granted: usize, denied: usize) -> Verdict {
        if granted >= self.needed {
            Verdict::Won
        } else if self.servers - self.needed < denied {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }

    /// Whether an acquire is lost, and the `open` votes decide why: refusals or failures alone do not lose it yet,
    /// but failures would if all the open votes failed too. An outage must not pass for contention because one
    /// server named a holder.
    #[cfg(any(test, feature = "election", feature = "family"))]
    pub(crate) fn leaves_open_why(self, refused: usize, failed: usize, open: usize) -> bool {
        let decides = |denied| self.verdict(0, denied) == Verdict::Lost;
        decides(refused + failed) && !decides(refused) && !decides(failed) && decides(failed + open)
    }

    pub(crate) fn servers(self) -> usize {
        self.servers
    }

    pub(crate) fn needed(self) -> usize {
        self.needed
    }

    pub(crate) fn tolerance(self) -> Tolerance {
        Tolerance {
            memory_losses: 2 * self.needed - self.servers - 1,
            outages: self.servers - self.needed,
        }
    }
}

#[cfg(test)]
mod tests;
