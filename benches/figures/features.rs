//! Measurements that need all features.

use super::report::Report;
use super::{Rounds, cluster, shares, together};

/// What is wished for; whether anything was.
pub fn run(rounds: &Rounds, is_wished: impl Fn(&str) -> bool, tell: impl Fn(Report)) -> bool {
    let wished = ["--together", "--shares", "--cluster"].map(is_wished);
    let [wants_together, wants_shares, wants_cluster] = wished;
    if wants_together {
        tell(together::run(rounds.together));
    }
    if wants_shares {
        tell(shares::run(rounds.shares));
    }
    if wants_cluster {
        cluster::run(rounds.latency, rounds.failovers).into_iter().for_each(tell);
    }
    wished.contains(&true)
}
