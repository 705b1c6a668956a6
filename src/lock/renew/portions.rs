//! What one command of a go says.

use leasehold_resp::Decimal;

use super::{Go, Share};
use crate::lock::names::{Key, Names};
use crate::lock::parameters::Parameters;
use crate::lock::row::Row;

/// Maximum locks extended by one command: it saves most of a command's cost, and keeps a server
/// busy for some tens of microseconds.
const LOCKS_PER_COMMAND: usize = 16;

impl Go {
    pub(super) fn names(&self, share: &Share) -> &[Names] {
        self.kept[share.member].hold.names_at(share.server)
    }

    pub(super) fn row(&self, share: Share) -> &'static Row {
        self.kept[share.member].hold.row()
    }

    pub(super) fn locks(&self, shares: &[Share]) -> usize {
        shares.iter().map(|share| self.names(share).len()).sum()
    }

    /// How many keys a command has for these leases, which are of one kind.
    pub(super) fn keys(&self, shares: &[Share]) -> usize {
        self.locks(shares) * if self.row(shares[0]).is_by_lock { 1 } else { 2 }
    }

    /// The keys of what is extended beside the locks, where there are such.
    pub(super) fn beside(&self, shares: &[Share]) -> Vec<Key> {
        let is_by_lock = self.row(shares[0]).is_by_lock;
        let names = shares.iter().filter(|_| !is_by_lock).flat_map(|share| self.names(share));
        names.map(Names::shares).collect()
    }

    /// The leases of each command.
    pub(super) fn portions<'a>(&self, shares: &'a [Share]) -> Vec<&'a [Share]> {
        let mut portions = Vec::new();
        let mut rest = shares;
        while !rest.is_empty() {
            let mut taken = 1;
            // What is in another slot, or of another kind, cannot be in the same command.
            let slot = |share: Share| self.kept[share.member].hold.participants[share.server].slot;
            while taken < rest.len()
                && slot(rest[taken]) == slot(rest[0])
                && std::ptr::eq(self.row(rest[taken]), self.row(rest[0]))
                && self.locks(&rest[..=taken]) <= LOCKS_PER_COMMAND
            {
                taken += 1;
            }
            let (portion, others) = rest.split_at(taken);
            portions.push(portion);
            rest = others;
        }
        portions
    }

    pub(super) fn spell<'a>(
        &'a self,
        shares: &[Share],
        (count, beside): (&'a Decimal, &'a Vec<Key>),
        ttls: &'a [Decimal],
    ) -> Parameters<'a> {
        let mut parameters = Parameters::of_keys(count);
        let locks = shares.iter().flat_map(|share| self.names(share)).map(Names::lock);
        if beside.is_empty() {
            parameters.extend(locks);
        } else {
            parameters.extend(locks.zip(beside).flat_map(|(lock, shares)| [lock, shares]));
        }
        for share in shares {
            let owner = self.kept[share.member].hold.owner.value();
            for _ in self.names(share) {
                parameters.extend([owner, &ttls[share.member]]);
            }
        }
        parameters
    }
}
