//! What a server says unasked, and its listeners.

use std::sync::Arc;

use leasehold_resp::Frame;

use super::owed::Refused;

/// Hears the pushes of the connections that it was given to.
///
/// It is called on the connection's tasks, outside of every lock of the connection: it should be
/// quick, and must not block.
pub trait Pushes: Send + Sync {
    /// A push came. A caller that waits for a reply that came after it is woken later, and one that looks
    /// for a reply that came before it finds that already.
    fn push(&self, frame: Frame);

    /// The connection has ended: no command is taken any more. Called once for each connection.
    fn ended(&self);
}

/// Hears what was owed to a server and refused by it; called as [`Pushes`] are.
pub trait Refusals: Send + Sync {
    /// The server did not do it.
    fn refused(&self, refused: Refused);
}

/// The listeners of a connection.
#[derive(Clone, Default)]
pub struct Listeners {
    /// Its pushes and its end.
    pub pushes: Option<Arc<dyn Pushes>>,
    /// What it refuses of what is owed.
    pub refusals: Option<Arc<dyn Refusals>>,
}
