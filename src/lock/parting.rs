//! How the locks of an owner are given back: freed, or kept from everybody for a while.

use std::time::Duration;

use leasehold_resp::Decimal;

use super::hold::Hold;
use super::names::{Key, Names};
use super::one_or_many::OneOrMany;
use super::parameters::Parameters;
use super::rare::Rest;
use super::row::Row;
use super::scripts;
use crate::server::script::Script;

/// See the module's documentation.
pub(super) struct Parting<'a> {
    owners: [Option<&'a [u8]>; 2],
    rest: Option<(Decimal, &'a [u8])>,
    /// Whether the owner may be in a queue.
    leaves: bool,
    /// Whether it is known that what is given back is a share of weight 1.
    is_single: bool,
    row: &'static Row,
}

impl<'a> Parting<'a> {
    /// That of a hold, and of the one before it whose locks servers may still have.
    pub(super) fn of(hold: &'a Hold) -> Self {
        let owners = [Some(hold.owner.value()), hold.predecessor()];
        let share = hold.sharing().and_then(|sharing| sharing.share);
        let is_single = share.is_some_and(|[_, weight]| weight == 1);
        let parting = Self::of_owners(owners, hold.rest(), hold.is_queued());
        Self { is_single, ..parting }.by(hold.row())
    }

    /// That of these owners.
    pub(super) fn of_owners(
        owners: [Option<&'a [u8]>; 2],
        rest: Option<&'a Rest>,
        leaves: bool,
    ) -> Self {
        let rest = rest.and_then(|rest| Some((millis(rest.left()?), rest.value.value())));
        Self { owners, rest, leaves, is_single: false, row: Row::of(None) }
    }

    /// The same of another kind of lease.
    pub(super) fn by(self, row: &'static Row) -> Self {
        Self { row, ..self }
    }

    pub(super) fn script(&self) -> &'static Script {
        if self.rest.is_some() { scripts::keep() } else { (self.row.release)() }
    }

    /// What the script is told beside the locks.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let mut owners = self.owners.into_iter().flatten();
        let rest = self.rest.iter().flat_map(|(left, value)| [&**left, value]);
        let how = match (self.leaves, self.is_single) {
            (true, _) => &b"leave"[..],
            (false, true) => b"single",
            (false, false) => b"",
        };
        let how = self.rest.is_none().then_some(how);
        owners.next().into_iter().chain(rest).chain(how).chain(owners)
    }

    /// That of these locks.
    pub(super) fn from<'p>(&'p self, names: &'p [Names]) -> ReleaseCall<'p> {
        let each = match self.rest {
            Some(_) => 1,
            None => 3 + u64::from(self.row.frees_shares),
        };
        let beside = if self.row.frees_shares {
            let shares = names.iter().map(Names::shares);
            OneOrMany::Many(names.iter().map(Names::queue).chain(shares).collect())
        } else {
            queues(names)
        };
        ReleaseCall { parting: self, names, count: Decimal::new(each * names.len() as u64), beside }
    }
}

/// A parting from some of an owner's locks.
pub(super) struct ReleaseCall<'a> {
    parting: &'a Parting<'a>,
    names: &'a [Names],
    count: Decimal,
    /// The keys of the queues of the locks, and behind them those of their shares.
    beside: OneOrMany<Key>,
}

impl ReleaseCall<'_> {
    pub(super) fn parameters(&self) -> Parameters<'_> {
        let Self { parting, names, ref count, ref beside } = *self;
        let mut parameters = Parameters::of_keys(count);
        for (names, queue) in names.iter().zip(&beside[..]) {
            parameters.push(names.lock());
            if parting.rest.is_none() {
                parameters.extend([names.fence(), queue]);
            }
        }
        if parting.rest.is_none() {
            // Those of the shares, where there are such.
            parameters.extend(beside.iter().skip(names.len()).map(|key| &**key));
        }
        parameters.extend(parting.arguments());
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
