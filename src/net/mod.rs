//! One socket, and what is waiting for an answer on it.
//!
//! This layer knows bytes, replies and time limits. It must never know what a lock, a script or a
//! quorum is, nor decide to connect again: a connection that failed stays failed, and its
//! successor is a new one (a new generation) with a new queue.
//!
//! From the bottom: `transport` opens sockets, by `tls` where that is wanted; `proof` knows what can
//! be the reply to a command, `limits` how large it may be, and `words` what of an error may be shown;
//! `outbox` holds what is to be written and `pipeline` matches replies to what waits for them, both
//! without I/O; `connection` joins these, with its `sending`, its `writing` and its `tasks`, and
//! `pushes` hears what answers nothing; `handshake` makes a connection usable, or an `open_error` says why none is; `lane` keeps one for callers.

#[cfg(any(test, feature = "cluster", feature = "sentinel"))]
pub mod limits;
pub mod open_error;
pub mod outcome;
pub(crate) mod reason;
pub mod refusal;
#[cfg(feature = "tls")]
pub mod tls;
/// Without the feature there is no way to have a client of TLS.
#[cfg(not(feature = "tls"))]
pub mod tls {
    /// Nothing.
    #[derive(Clone, Debug)]
    pub enum Client {}

    impl Client {
        pub fn patient(&self) -> Self {
            match *self {}
        }

        pub fn whole(&self, _: std::time::Duration) -> std::time::Duration {
            match *self {}
        }
    }
}
pub mod transport;
