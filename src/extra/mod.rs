//! What stands on the machine, and is named by nothing in it: what only some programs use.

#[cfg(any(test, feature = "groups"))]
pub(crate) mod groups;
mod queue;
#[cfg(any(test, feature = "sharing"))]
pub(crate) mod sharing;

pub(crate) use self::queue::QUEUE;
use crate::machine::Script;
use crate::server::script::Script as Known;

/// A script that servers call by its digest, as the machine has it.
pub(crate) fn script(known: &'static Known) -> Script {
    let (text, digest) = known.to_load().expect("it has a digest");
    Script { text, digest }
}
