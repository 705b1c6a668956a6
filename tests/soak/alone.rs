//! Clients that take locks, and nothing beside them.

use leasehold::LockRequest;
use leasehold_testing::accounts::Broken;
use leasehold_testing::leases::Part;

use crate::client::{Client, Stage, key};

impl Client {
    pub(crate) fn request(&self, name: usize, tries: bool) -> (Part, LockRequest) {
        let (locker, key) = (&self.locker, key(name));
        (Part::Whole, if tries { locker.try_lock(key) } else { locker.lock(key) })
    }

    pub(crate) async fn turn_in_family(&mut self) {
        unreachable!("no plan has it")
    }

    pub(crate) async fn be_served(&mut self) {
        unreachable!("no plan has it")
    }
}

/// Nothing can be broken of what nobody asks for.
pub(crate) fn broken(_: &Stage) -> (Vec<Broken>, [(&'static str, usize); 0]) {
    (Vec::new(), [])
}
