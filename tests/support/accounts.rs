//! What callers of jobs, requests, limits, latches and barriers were told, and what must never be among it.
//!
//! All times are by one clock, and read so that every doubt is in the library's favour.

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
    /// No more of them lost leases, within the life of any, than may.
    pub keeps_leases: bool,
    /// No more of them have forgotten anything, ever, than may.
    pub remembers: bool,
    /// None of their clocks was set forward.
    pub has_even_clocks: bool,
}

impl Accounts {
    /// All promises that were broken; `most` is what each limit lets through, and `parties` is how many each
    /// latch and each barrier has.
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
