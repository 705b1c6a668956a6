//! What runs on a locker's core: the leases that are kept, and the waiters.

use std::ops::Deref;
use std::sync::Arc;
#[cfg(feature = "inspect")]
use std::sync::{Mutex, Weak};

use super::core::Core;
use super::keeper::Keeper;
use super::lines::Lines;
use super::names::Names;
#[cfg(feature = "inspect")]
use crate::mutex::lock;
#[cfg(feature = "inspect")]
use crate::server::lookout::Lookout;

/// The name of the lock whose holder has the turn among requests for several locks: as docs/acl.md has it.
const TURNS: &[u8] = b"leasehold:turn";

pub(crate) struct Engine {
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    lines: Arc<Lines>,
    /// The lock whose holder has the turn among requests for several; none where the key prefix is none of a name.
    turns: Option<Names>,
    /// What looks at locks from outside share, while there are any.
    #[cfg(feature = "inspect")]
    lookout: Mutex<Weak<Lookout>>,
}

impl Engine {
    pub(crate) fn new(core: Core, key_prefix: &[u8]) -> Self {
        let core = Arc::new(core);
        let keeper = Arc::new(Keeper::new(Arc::clone(&core)));
        Self {
            lines: Arc::new(Lines::new(Arc::clone(&core))),
            keeper,
            core,
            turns: Names::new(key_prefix, TURNS).ok(),
            #[cfg(feature = "inspect")]
            lookout: Mutex::default(),
        }
    }

    /// What all looks at locks from outside share.
    #[cfg(feature = "inspect")]
    pub(super) fn lookout(&self) -> Arc<Lookout> {
        let mut shared = lock(&self.lookout);
        shared.upgrade().unwrap_or_else(|| {
            let lookout = Arc::new(Lookout::default());
            *shared = Arc::downgrade(&lookout);
            lookout
        })
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    pub(super) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub(super) fn turns(&self) -> Option<&Names> {
        self.turns.as_ref()
    }

    /// No request is granted any more, and the waiters are told.
    pub(super) fn close(&self) {
        self.core.close();
        self.lines.close();
    }
}

impl Deref for Engine {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.keeper.dismiss();
    }
}
