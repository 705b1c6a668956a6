//! How the locks of an owner are given back: freed, or kept from everybody for a while.

use std::time::Duration;

use leasehold_resp::Decimal;

use super::hold::Hold;
use super::names::Names;
use super::parameters::Parameters;
use super::rare::Rest;
use super::scripts;
use crate::server::script::Script;

/// See the module's documentation.
pub(super) struct Parting<'a> {
    owners: [Option<&'a [u8]>; 2],
    rest: Option<(Decimal, &'a [u8])>,
}

impl<'a> Parting<'a> {
    /// That of a hold, and of the one before it whose locks servers may still have.
    pub(super) fn of(hold: &'a Hold) -> Self {
        Self::of_owners([Some(hold.owner.value()), hold.predecessor()], hold.rest())
    }

    /// That of these owners.
    pub(super) fn of_owners(owners: [Option<&'a [u8]>; 2], rest: Option<&'a Rest>) -> Self {
        let rest = rest.and_then(|rest| Some((millis(rest.left()?), rest.value.value())));
        Self { owners, rest }
    }

    pub(super) fn script(&self) -> &'static Script {
        if self.rest.is_some() { scripts::keep() } else { scripts::release() }
    }

    /// What the script is told beside the locks.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let [owner, predecessor] = self.owners;
        let rest = self.rest.iter().flat_map(|(left, value)| [&**left, value]);
        owner.into_iter().chain(rest).chain(predecessor)
    }

    pub(super) fn parameters<'p>(&'p self, names: &'p [Names], keys: &'p [u8]) -> Parameters<'p> {
        let mut parameters = Parameters::of_keys(keys);
        parameters.extend(names.iter().map(Names::lock));
        parameters.extend(self.arguments());
        parameters
    }
}

/// In whole milliseconds, and not less.
fn millis(left: Duration) -> Decimal {
    let whole = left.as_nanos().div_ceil(1_000_000);
    Decimal::new(u64::try_from(whole).unwrap_or(u64::MAX))
}
