//! Opens one socket, and says what went wrong with it.
//!
//! This layer knows bytes, addresses and errors. It must never know what a lock, a script or a quorum is, nor decide to
//! connect again: the machine decides that.
//!
//! `transport` opens sockets, with `tls` if asked for; `streams` has a caller open them; `open_error` says why a dial failed;
//! `limits` says how large a reply may be; `refusal` is a server's error, `fault` why a command has no reply, `reason` which
//! party failed.

pub mod fault;
#[cfg(any(test, feature = "cluster", feature = "sentinel"))]
pub mod limits;
pub mod open_error;
pub(crate) mod reason;
pub mod refusal;
#[cfg(feature = "streams")]
pub mod streams;
/// Without the feature there is no way to have a connector.
#[cfg(not(feature = "streams"))]
pub mod streams {
    /// Nothing.
    #[derive(Clone, Debug)]
    pub enum Connector {}
}
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
