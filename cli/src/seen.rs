//! The results of a scan: held locks, then primitives beside locks.

use leasehold::inspect::{List, LockView, PrimitiveView, ServerFailure};
use leasehold::{Error, Locker};

use crate::words::plain;
use crate::{json, show};

/// One lock or primitive.
pub enum Seen {
    Lock(LockView),
    Primitive(PrimitiveView),
}

/// Its name and kind, in the order of the display.
pub type Identity = (Vec<u8>, Option<&'static str>);

impl Seen {
    pub fn identity(&self) -> Identity {
        match self {
            Self::Lock(view) => (view.name.clone(), None),
            Self::Primitive(view) => (view.name.clone(), Some(show::kind(view.primitive))),
        }
    }

    pub fn row(&self) -> String {
        match self {
            Self::Lock(view) => show::row(view),
            Self::Primitive(view) => show::primitive_row(view),
        }
    }

    pub fn narrow_row(&self) -> String {
        match self {
            Self::Lock(view) => show::narrow_row(view),
            Self::Primitive(view) => show::narrow_primitive_row(view),
        }
    }

    pub fn json(&self) -> String {
        match self {
            Self::Lock(view) => json::of(view),
            Self::Primitive(view) => json::of_one(view),
        }
    }

    /// The line for its change.
    pub fn change(&self) -> String {
        match self {
            Self::Lock(view) => show::change(view),
            Self::Primitive(view) => {
                let kind = show::kind(view.primitive);
                format!("{}: {kind}: {}", plain(&view.name), show::progress(view))
            }
        }
    }

    /// The state whose change is printed.
    pub fn standing(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Lock(view) => {
                let owner = view.holders.first().map(|holder| holder.holder.owner.clone());
                (show::word(view.state), owner)
            }
            Self::Primitive(view) => (show::kind(view.primitive), Some(show::standing(view))),
        }
    }
}

/// The line for one that is gone.
pub fn gone((name, kind): &Identity) -> String {
    match kind {
        Some(kind) => format!("{}: {kind}: gone", plain(name)),
        None => format!("{}: free", plain(name)),
    }
}

/// Finds locks, then primitives.
pub struct Scan {
    locks: List<LockView>,
    primitives: List<PrimitiveView>,
    are_locks_over: bool,
}

impl Scan {
    pub fn new(locker: &Locker, pattern: &[u8]) -> Self {
        let (locks, primitives) = (locker.list(pattern), locker.list_primitives(pattern));
        Self { locks, primitives, are_locks_over: false }
    }

    pub async fn next(&mut self) -> Result<Option<Seen>, Error> {
        if !self.are_locks_over {
            if let Some(view) = self.locks.next().await? {
                return Ok(Some(Seen::Lock(view)));
            }
            self.are_locks_over = true;
        }
        Ok(self.primitives.next().await?.map(Seen::Primitive))
    }

    /// Without duplicates.
    pub fn failures(&self) -> Vec<ServerFailure> {
        let mut failures = self.locks.failures().to_vec();
        let more = self.primitives.failures().iter();
        failures.extend(more.filter(|more| !self.locks.failures().contains(more)).cloned());
        failures
    }

    pub fn is_complete(&self) -> bool {
        self.are_all() == (true, true)
    }

    /// Whether all locks were found, and all primitives.
    pub fn are_all(&self) -> (bool, bool) {
        (self.are_locks_over && self.locks.is_complete(), self.primitives.is_complete())
    }
}
