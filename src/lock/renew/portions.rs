//! What one command of a go says.

use super::Go;
use crate::lock::batch::Share;
use crate::lock::names::Names;
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
}
