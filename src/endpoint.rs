//! Where a server is and how to log in: the URL that the user gives.
//!
//! Nothing is resolved or opened here. A URL can hold a password, and a mistyped one can hold it
//! anywhere, so no error, no `Debug` and no `Display` of this module repeats what it read: see
//! [`InvalidEndpoint`].

#[cfg(feature = "cluster")]
mod cluster;
pub mod credentials;
pub(crate) mod host;
mod invalid;
#[cfg(not(all(feature = "cluster", feature = "sentinel")))]
mod left_out;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod mapped;
mod percent;
mod pieces;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server;
mod target;
#[cfg(all(test, feature = "cluster", feature = "sentinel"))]
mod tests;

#[cfg(feature = "cluster")]
pub use cluster::Seeds;
pub use invalid::{InvalidEndpoint, Part};
#[cfg(any(feature = "cluster", feature = "sentinel"))]
pub(crate) use mapped::Mapped;
#[cfg(feature = "sentinel")]
pub use sentinel::Watched;
pub use server::Endpoint;
pub use target::Target;

#[cfg(not(feature = "cluster"))]
pub type Seeds = left_out::LeftOut<true>;
#[cfg(not(feature = "sentinel"))]
pub type Watched = left_out::LeftOut<false>;

pub use credentials::{Credentials, Login, Secret};
