use std::time::Duration;

/// Round trips of the others, and time beside them, that a server is given to answer where the
/// servers together could do without its answer.
const SLOW_ROUND_TRIPS: u32 = 4;
const SLOW_FLOOR: Duration = Duration::from_millis(2);

/// How long a server is waited for whose answer the servers together could do without, where the
/// slowest of the others took `round_trip`.
pub(crate) fn patience(round_trip: Duration) -> Duration {
    round_trip * SLOW_ROUND_TRIPS + SLOW_FLOOR
}

/// The votes of servers are bits of one number.
const SERVERS_MAX: usize = 64;

/// How many of how many servers have to grant a lease.
///
/// A single server is a quorum of one out of one: there is no other path for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    servers: usize,
    needed: usize,
}

/// What the votes counted so far amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both ends are still open.
    #[default]
    Pending,
    /// Enough servers granted.
    Won,
    /// Too few servers are left that could still grant.
    Lost,
}

/// How many of N servers with a quorum of q may fail, and how.
///
/// Two quorums of q share at least 2q - N servers. As long as one of these still knows of the
/// first lease, the second cannot be granted: so 2q - N - 1 of them may forget.
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
    /// `needed` of `servers`; the smallest majority where it is not given.
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

    /// All of `servers`, of which there is at least one.
    pub(crate) fn all(servers: usize) -> Self {
        Self { servers, needed: servers }
    }

    /// The verdict after `granted` grants and `denied` votes that can no longer become one.
    pub(crate) fn verdict(self, granted: usize, denied: usize) -> Verdict {
        if granted >= self.needed {
            Verdict::Won
        } else if self.servers - self.needed < denied {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }

    /// Whether an acquire is lost, and `open` votes can still say why. Neither the refusals nor the failures decide it
    /// alone, and the failures would if enough of the open votes failed too. An outage must not pass for contention
    /// because one server named a holder.
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
