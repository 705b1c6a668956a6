//! Handles on holds, in room that is used again: a lease costs no allocation where others have
//! come and gone before.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use super::hold::Hold;

/// Maximum empty rooms that are kept for later holds; further ones go back to the allocator.
const SPARE_MAX: usize = 128;

/// One of the handles on a hold. When the last one goes, the hold goes, and its room is spare.
pub(super) struct Held(Option<Room>);

/// Where a hold is; it takes no more than a pointer where there may be none.
pub(super) type Room = Arc<Option<Hold>>;

/// Room that no hold is in.
static SPARE: Mutex<Vec<Room>> = Mutex::new(Vec::new());

impl Held {
    #[inline]
    pub(super) fn new(hold: Hold) -> Self {
        let mut room =
            SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        match Arc::get_mut(&mut room) {
            Some(free) => _ = free.insert(hold),
            None => room = Arc::new(Some(hold)),
        }
        Self(Some(room))
    }

    /// The pointer without the handle, for the keeper of many leases. It is made a handle again before
    /// it is dropped, so that its room is used again.
    pub(super) fn into_room(mut self) -> Room {
        self.0.take().expect("it is emptied when it is dropped")
    }
}

impl From<Room> for Held {
    fn from(room: Room) -> Self {
        Self(Some(room))
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Deref for Held {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        let hold = self.0.as_ref().and_then(|room| Option::as_ref(room));
        hold.expect("it is emptied when its last handle is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(mut room) = self.0.take() else { return };
        // Only looked at: where two handles that go at once both see the other, the room is dropped.
        if Arc::strong_count(&room) > 1 {
            return;
        }
        let Some(last) = Arc::get_mut(&mut room) else { return };
        // Dropped where it is, and where no lock is held: a hold costs to move.
        *last = None;
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(room);
        }
    }
}
