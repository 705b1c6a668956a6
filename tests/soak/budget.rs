//! How many servers may lose a key: at most k of them within the life of any lease.
//!
//! Keys are counted by name: what is lost of one name is no harm to another.

use std::time::Duration;

use crate::history::At;

pub(crate) struct Budget {
    /// k of the set of servers.
    losses_max: usize,
    /// The longest life of a lease since its last extension, and more.
    window: Duration,
    losses: Vec<Loss>,
}

struct Loss {
    name: usize,
    server: usize,
    /// Read after the server had done it.
    ended: At,
}

impl Budget {
    pub(crate) fn new(losses_max: usize, window: Duration) -> Self {
        Self { losses_max, window, losses: Vec::new() }
    }

    /// Whether `server` may lose `name` now, which is read before it is told to.
    pub(crate) fn allows(&mut self, name: usize, server: usize, now: At) -> bool {
        self.losses.retain(|loss| loss.ended + self.window > now);
        let mut servers = vec![server];
        servers.extend(self.losses.iter().filter(|loss| loss.name == name).map(|loss| loss.server));
        servers.sort_unstable();
        servers.dedup();
        servers.len() <= self.losses_max
    }

    pub(crate) fn spend(&mut self, name: usize, server: usize, ended: At) {
        self.losses.push(Loss { name, server, ended });
    }
}

#[test]
fn at_most_k_servers_lose_a_name_in_any_window() {
    const fn at(ms: u64) -> At {
        Duration::from_millis(ms)
    }
    let mut budget = Budget::new(2, at(1000));
    for server in [0, 1] {
        assert!(budget.allows(7, server, at(10)));
        budget.spend(7, server, at(10 + 10 * u64::try_from(server).unwrap()));
    }
    assert!(!budget.allows(7, 2, at(1009)), "a third server");
    assert!(budget.allows(7, 1, at(1009)), "one that has lost it already");
    assert!(budget.allows(8, 2, at(1009)), "another name");
    assert!(budget.allows(7, 2, at(1010)), "the first loss is forgotten");
    assert!(!Budget::new(0, at(1000)).allows(7, 0, at(0)));
}
