//! Whether a guard of the same locker holds a lock that was refused.

use super::engine::Engine;
use super::names::{Names, title};
use super::order::Wish;
use crate::error::{Error, Kind, Report};

/// Refuses what a guard of this locker holds already, where the caller asked for that.
pub(super) fn refuse_own(engine: &Engine, wish: &Wish) -> Result<(), Error> {
    let is_wanted = |names: &Names| wish.names.contains(names);
    if wish.refuses_own
        && engine.keeper().any(|hold| hold.state().is_held() && hold.names.iter().any(is_wanted))
    {
        return Err(Error::new(Kind::HeldHere, title(&wish.names), Report::default()));
    }
    Ok(())
}

/// Says of each holder in the error whether it is a guard of this locker.
pub(super) fn mark_own(engine: &Engine, error: &mut Error) {
    for holder in error.report_mut().holders_mut() {
        let owner = holder.owner.as_bytes();
        holder.is_here = engine.keeper().any(|hold| hold.owner.id() == *owner);
    }
}
