//! How the locks of an owner are given back: freed, or kept from everybody for a while.

use std::time::Duration;

use leasehold_resp::Decimal;

use super::hold::Hold;
use super::names::{Key, Names};
use super::one_or_many::OneOrMany;
use super::parameters::Parameters;
use super::rare::Rest;
use super::scripts;
#[cfg(test)]
use crate::policy::mutants::Mutant;
use crate::server::script::Script;

/// See the module's documentation.
pub(super) struct Parting<'a> {
    owners: [Option<&'a [u8]>; 2],
    rest: Option<(Decimal, &'a [u8])>,
    /// Whether the owner may be in a queue.
    leaves: bool,
}

impl<'a> Parting<'a> {
    /// That of a hold, and of the one before it whose locks servers may still have.
    pub(super) fn of(hold: &'a Hold) -> Self {
        Self::of_owners(
            [Some(hold.owner.value()), hold.predecessor()],
            hold.rest(),
            hold.is_queued(),
        )
    }

    /// That of these owners.
    pub(super) fn of_owners(
        owners: [Option<&'a [u8]>; 2],
        rest: Option<&'a Rest>,
        leaves: bool,
    ) -> Self {
        #[cfg(test)]
        let leaves = leaves && !Mutant::QueueIsNotLeft.is_on();
        let rest = rest.and_then(|rest| Some((millis(rest.left()?), rest.value.value())));
        Self { owners, rest, leaves }
    }

    pub(super) fn script(&self) -> &'static Script {
        if self.rest.is_some() { scripts::keep() } else { scripts::release() }
    }

    /// What the script is told beside the locks.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let mut owners = self.owners.into_iter().flatten();
        let rest = self.rest.iter().flat_map(|(left, value)| [&**left, value]);
        let leaves = if self.leaves { &b"leave"[..] } else { b"" };
        let leaves = self.rest.is_none().then_some(leaves);
        owners.next().into_iter().chain(rest).chain(leaves).chain(owners)
    }

    /// How many keys the script has for these locks.
    pub(super) fn count(&self, names: &[Names]) -> Decimal {
        let each = if self.rest.is_some() { 1 } else { 3 };
        Decimal::new(each * names.len() as u64)
    }

    pub(super) fn parameters<'p>(
        &'p self,
        names: &'p [Names],
        queues: &'p [Key],
        count: &'p [u8],
    ) -> Parameters<'p> {
        let mut parameters = Parameters::of_keys(count);
        for (names, queue) in names.iter().zip(queues) {
            parameters.push(names.lock());
            if self.rest.is_none() {
                parameters.extend([names.fence(), queue]);
            }
        }
        parameters.extend(self.arguments());
        parameters
    }
}

/// In whole milliseconds, and not less.
fn millis(left: Duration) -> Decimal {
    let whole = left.as_nanos().div_ceil(1_000_000);
    Decimal::new(u64::try_from(whole).unwrap_or(u64::MAX))
}

/// The keys of the queues of these locks.
pub(super) fn queues(names: &[Names]) -> OneOrMany<Key> {
    names.iter().map(Names::queue).collect()
}

pub(super) fn count(number: usize) -> Decimal {
    Decimal::new(number as u64)
}
