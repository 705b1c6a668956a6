//! What no two leases of one history may be to each other, whatever else is known of them.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is compared of a lease, by one clock.
pub trait Lease {
    /// Which lock it is of.
    fn name(&self) -> usize;
    fn token(&self) -> u64;
    /// Not after its acquire was begun.
    fn begun(&self) -> Duration;
    /// Not before it was granted.
    fn granted(&self) -> Duration;
    /// Up to here its holder was told that it holds.
    fn until(&self) -> Duration;
}

fn by_name<L: Lease>(leases: &[L]) -> impl Iterator<Item = Vec<&L>> {
    let mut groups: BTreeMap<usize, Vec<&L>> = BTreeMap::new();
    for lease in leases {
        groups.entry(lease.name()).or_default().push(lease);
    }
    groups.into_values()
}

/// Leases that began while another of the same lock held, each with that one.
pub fn overlapping<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.sort_by_key(|lease| lease.granted());
        let mut longest: Option<&L> = None;
        for lease in of_name.into_iter().filter(|lease| lease.until() > lease.granted()) {
            if let Some(other) = longest.filter(|other| lease.granted() < other.until()) {
                found.push((lease, other));
            }
            if longest.is_none_or(|other| other.until() < lease.until()) {
                longest = Some(lease);
            }
        }
    }
    found
}

/// Leases of one lock with the same token.
pub fn of_one_token<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.sort_by_key(|lease| lease.token());
        let twins = of_name.windows(2).filter(|pair| pair[0].token() == pair[1].token());
        found.extend(twins.map(|pair| (pair[0], pair[1])));
    }
    found
}

/// Leases that were asked for after another had been granted, and have no larger token.
pub fn out_of_order<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for of_name in by_name(leases) {
        let (mut by_grant, mut by_question) = (of_name.clone(), of_name);
        by_grant.sort_by_key(|lease| lease.granted());
        by_question.sort_by_key(|lease| lease.begun());
        let mut granted = by_grant.into_iter().peekable();
        let mut highest: Option<&L> = None;
        for lease in by_question {
            while let Some(earlier) = granted.next_if(|other| other.granted() < lease.begun()) {
                if highest.is_none_or(|other| other.token() < earlier.token()) {
                    highest = Some(earlier);
                }
            }
            if let Some(other) = highest.filter(|other| other.token() >= lease.token()) {
                found.push((lease, other));
            }
        }
    }
    found
}
