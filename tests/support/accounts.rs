//! The answers that callers of jobs, requests, limits, latches and barriers got, and the promises that they must keep.
//!
//! All times are by one clock, and every doubt is read in the library's favour.

mod gates;
mod takes;
mod works;

use std::time::Duration;

pub use gates::{Arrival, Look};
pub use takes::{Most, Take};
pub use works::{Answer, Trade, Work};

type At = Duration;

/// A broken promise: what is wrong, and the part of the history that shows it.
pub type Broken = (&'static str, String);

#[derive(Debug, Default)]
pub struct Accounts {
    pub works: Vec<Work>,
    pub answers: Vec<Answer>,
    pub takes: Vec<Take>,
    pub arrivals: Vec<Arrival>,
    pub looks: Vec<Look>,
}

/// What servers did not do, on which promises rest.
#[derive(Clone, Copy, Debug)]
pub struct Fair {
    /// At no time did more servers than tolerated lose leases that still ran.
    pub keeps_leases: bool,
    /// No more servers than tolerated ever lost any data.
    pub remembers: bool,
    /// No server's clock was set forward.
    pub has_even_clocks: bool,
}

impl Accounts {
    /// All broken promises. `most` is each limit's maximum; `parties` is the size of each latch and each barrier.
    pub fn broken(&self, fair: Fair, most: &[Most], parties: usize) -> Vec<Broken> {
        let mut broken = Vec::new();
        if fair.keeps_leases {
            broken.extend(works::beside_one_another(&self.works));
        }
        if fair.remembers {
            broken.extend(works::out_of_order(&self.works));
            broken.extend(works::repeated(&self.works, &self.answers));
            broken.extend(works::differing(&self.answers));
            broken.extend(gates::opened_too_soon(&self.arrivals, &self.looks, parties));
            broken.extend(gates::closed_again(&self.looks));
            broken.extend(gates::kept_closed(&self.arrivals, &self.looks, parties));
        }
        if fair.remembers && fair.has_even_clocks {
            for (limit, most) in most.iter().enumerate() {
                broken.extend(takes::too_many(&self.takes, limit, *most));
            }
        }
        broken
    }
}
