//! What a machine wants to be done.

use std::task::Waker;
use std::time::Duration;

use super::counts::Event;
use super::link::Fault;

/// What a driver has to do beside sending.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Get credentials, dial and make the handshake, all within this time: [`Machine::connected`] or
    /// [`Machine::disconnected`].
    Dial(usize, Duration),
    Close(usize, Fault),
    /// A server says that it is a replica: another may have taken its place.
    Demoted(usize),
    /// Get credentials: [`Machine::log_in`].
    Login(usize),
    Wake(Waker),
    Tell(Event),
}
