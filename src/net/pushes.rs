//! What a server says that nobody asked for, and who hears it.

use leasehold_resp::Frame;

/// Hears the pushes of the connections that it was given to.
///
/// It is called on the connection's tasks, outside of every lock of the connection: it should be
/// quick, and must not block.
pub trait Pushes: Send + Sync {
    /// A push came. Whoever waits for a reply that came after it is woken later, and whoever looks
    /// for a reply that came before it finds that already.
    fn push(&self, frame: Frame);

    /// The connection has ended: no command is taken any more. Called once for each connection.
    fn ended(&self);
}
