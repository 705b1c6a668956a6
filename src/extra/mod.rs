//! What stands on the machine, and is named by nothing in it: what only some programs use.

mod queue;

pub(crate) use self::queue::QUEUE;
