//! Opens one socket, and says why it failed.
//!
//! This layer knows bytes, addresses and errors. It must never know what a lock, a script or a quorum is, nor decide to
//! connect again: the machine decides that.
//!
//! `transport` opens sockets, with `tls` if needed; `streams` uses those that a caller opens; `open_error` says why a
//! dial failed; `limits` says how large a reply may be; `refusal` is a server's error, `fault` why a command has no
//! reply, `reason` which party failed.

pub mod fault;
#[cfg(any(test, feature = "cluster", feature = "sentinel"))]
pub mod limits;
pub mod open_error;
pub(crate) mod reason;
pub mod refusal;
#[cfg(feature = "streams")]
pub mod streams;
/// Without the feature: no connector exists.
#[cfg(not(feature = "streams"))]
pub mod streams {
    /// Has no values.
    #[derive(Clone, Debug)]
    pub enum Connector {}
}
#[cfg(feature = "tls")]
pub mod tls;
/// Without the feature: no TLS client exists.
#[cfg(not(feature = "tls"))]
pub mod tls {
    /// Has no values.
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
