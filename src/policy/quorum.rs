/// How many of how many servers have to grant a lease.
///
/// A single server is a quorum of one out of one: there is no other path for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    servers: usize,
    needed: usize,
}

/// What the votes counted so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both ends are still open.
    Pending,
    /// Enough servers granted.
    Won,
    /// Too few servers are left that could still grant.
    Lost,
}

impl Quorum {
    /// The smallest majority of `servers`.
    ///
    /// # Panics
    ///
    /// When there is no server: nothing can be granted by nobody.
    pub(crate) fn majority(servers: usize) -> Self {
        assert!(servers > 0, "a quorum needs at least one server");
        Self { servers, needed: servers / 2 + 1 }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition itself, by enumeration of what the open votes could still become.
    fn plain_verdict(servers: usize, needed: usize, granted: usize, denied: usize) -> Verdict {
        let open = servers - granted - denied;
        let wins = (0..=open).filter(|more| granted + more >= needed).count();
        match wins {
            0 => Verdict::Lost,
            all if all == open + 1 => Verdict::Won,
            _ => Verdict::Pending,
        }
    }

    #[test]
    fn the_verdict_falls_exactly_when_open_votes_cannot_change_it() {
        for servers in 1..=9 {
            let quorum = Quorum::majority(servers);
            for granted in 0..=servers {
                for denied in 0..=servers - granted {
                    assert_eq!(
                        quorum.verdict(granted, denied),
                        plain_verdict(servers, quorum.needed, granted, denied),
                        "{servers} servers, {granted} granted, {denied} denied"
                    );
                }
            }
        }
    }

    #[test]
    fn two_majorities_always_share_a_server() {
        for servers in 1..=9 {
            assert!(2 * Quorum::majority(servers).needed > servers);
        }
    }
}
