//! Renewals under way, several in one command.

use super::ids::{BatchId, LeaseId};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Batches {
    under_way: Vec<Option<Vec<(LeaseId, u32)>>>,
    free: Vec<u32>,
    spare: Vec<Vec<(LeaseId, u32)>>,
    /// Those that are due now.
    pub(super) due: Vec<LeaseId>,
}

impl Batches {
    pub(super) fn begin(&mut self, members: impl Iterator<Item = (LeaseId, u32)>) -> BatchId {
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.extend(members);
        let number = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            u32::try_from(self.under_way.len() - 1).expect("memory ends before")
        });
        self.under_way[number as usize] = Some(batch);
        BatchId(number)
    }

    pub(super) fn end(&mut self, BatchId(number): BatchId) -> Vec<(LeaseId, u32)> {
        self.free.push(number);
        self.under_way[number as usize].take().unwrap_or_default()
    }

    pub(super) fn reuse(&mut self, mut batch: Vec<(LeaseId, u32)>) {
        batch.clear();
        self.spare.push(batch);
    }
}
