//! What no two leases of one history may be to each other, whatever else is known of them.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a lease has of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Reader,
    /// Of a semaphore, with this weight.
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

/// What is compared of a lease, by one clock.
pub trait Lease {
    /// Which lock it is of.
    fn name(&self) -> usize;
    fn part(&self) -> Part;
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

/// All holders of a lock when the last of them was granted it, where they may not hold it together: a
/// holder of the whole lock beside another, or permits of more weight than `limit`.
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

/// Leases of one lock with the same token. Readers carry that of another.
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

/// Leases that were asked for after another had been granted, and have no larger token: a reader's may be
/// the same, and of readers only a later holder of the whole lock has a larger one.
pub fn out_of_order<L: Lease>(leases: &[L]) -> Vec<(&L, &L)> {
    let mut found = Vec::new();
    for of_name in by_name(leases) {
        let (mut by_grant, mut by_question) = (of_name.clone(), of_name);
        by_grant.sort_by_key(|lease| lease.granted());
        by_question.sort_by_key(|lease| lease.begun());
        let mut granted = by_grant.into_iter().peekable();
        // Of readers, and of all others.
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
