//! What a machine wants to be done.

use std::task::Waker;
use std::time::Duration;

use super::counts::Event;
use super::fault::Fault;

/// What a driver has to do beside sending.
#[derive(Debug)]
#[allow(dead_code, reason = "what it is about is said, though not every driver asks")]
pub(crate) enum Effect {
    /// Get credentials, dial and make the handshake, all within this time: [`Machine::connected`] or
    /// [`Machine::disconnected`].
    Dial(usize, Duration),
    Close(usize, Fault),
    /// Another server may have taken the place of this one: it says that it is a replica, or has a slot no more, or its
    /// connection has ended where each has slots.
    Demoted(usize),
    /// Get credentials: [`Machine::log_in`].
    #[cfg(any(test, feature = "credentials"))]
    Login(usize),
    Wake(Waker),
    /// Nobody waits by it any more: it may own what calls the machine, so it is not dropped in here.
    Drop(Waker),
    Tell(Event),
}
