//! Rules between the leases of one history, for all kinds of leases.

use std::collections::BTreeMap;
use std::time::Duration;

/// The part of its lock that a lease has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Reader,
    /// A permit of a semaphore, with this weight.
    Permit(u32),
}

impl Part {
    pub fn weight(self) -> u32 {
        match self {
            Self::Permit(weight) => weight,
            Self::Whole | Self::Reader => 0,
        }
    }
}

/// The facts of a lease to compare, by one clock.
pub trait Lease {
    /// The number of its lock.
    fn name(&self) -> usize;
    fn part(&self) -> Part;
    fn token(&self) -> u64;
    /// A moment before its request.
    fn begun(&self) -> Duration;
    /// A moment after its grant.
    fn granted(&self) -> Duration;
    /// Its holder relied on it until this moment.
    fn until(&self) -> Duration;
}

fn by_name<L: Lease>(leases: &[L]) -> impl Iterator<Item = Vec<&L>> {
    let mut groups: BTreeMap<usize, Vec<&L>> = BTreeMap::new();
    for lease in leases {
        groups.entry(lease.name()).or_default().push(lease);
    }
    groups.into_values()
}

/// The groups of holders that may not hold a lock together: one of the whole lock beside another, or permits of more
/// weight than `limit`. Each group is of the moment of its last grant.
pub fn crowds<L: Lease>(leases: &[L], limit: u32) -> Vec<Vec<&L>> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.sort_by_key(|lease| lease.granted());
        let mut holding: Vec<&L> = Vec::new();
        for lease in of_name.into_iter().filter(|lease| lease.until() > lease.granted()) {
            holding.retain(|other| other.until() > lease.granted());
            holding.push(lease);
            let weight: u32 = holding.iter().map(|other| other.part().weight()).sum();
            let has_whole = holding.iter().any(|other| other.part() == Part::Whole);
            if weight > limit || has_whole && holding.len() > 1 {
                found.push(holding.clone());
            }
        }
    }
    found
}

/// Pairs of leases of one lock with the same token, except readers.
pub fn of_one_token<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.retain(|lease| lease.part() != Part::Reader);
        of_name.sort_by_key(|lease| lease.token());
        let twins = of_name.windows(2).filter(|pair| pair[0].token() == pair[1].token());
        found.extend(twins.map(|pair| (pair[0], pair[1])));
    }
    found
}

/// Pairs in which a lease that was requested after the other's grant has no larger token. A reader's may be the same,
/// and after readers only a later holder of the whole lock has a larger one.
pub fn out_of_order<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for of_name in by_name(leases) {
        let (mut by_grant, mut by_question) = (of_name.clone(), of_name);
        by_grant.sort_by_key(|lease| lease.granted());
        by_question.sort_by_key(|lease| lease.begun());
        let mut granted = by_grant.into_iter().peekable();
        // Separately for readers, and for all others.
        let mut highest: [Option<&L>; 2] = [None, None];
        for lease in by_question {
            while let Some(earlier) = granted.next_if(|other| other.granted() < lease.begun()) {
                let highest = &mut highest[usize::from(earlier.part() != Part::Reader)];
                if highest.is_none_or(|other| other.token() < earlier.token()) {
                    *highest = Some(earlier);
                }
            }
            let [reader, other] = highest;
            let least = lease.token() + u64::from(lease.part() == Part::Reader);
            let reader = reader.filter(|_| lease.part() == Part::Whole);
            let above = reader.into_iter().chain(other).find(|other| other.token() >= least);
            found.extend(above.map(|other| (lease, other)));
        }
    }
    found
}
