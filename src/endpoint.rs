//! Where a server is and how to log in: the URL that the user gives.
//!
//! Nothing is resolved or opened here. A URL can hold a password, and a mistyped one can hold it
//! anywhere, so no error, no `Debug` and no `Display` of this module repeats what it read: see
//! [`InvalidEndpoint`].

#[cfg_attr(not(feature = "cluster"), path = "endpoint/cluster/off.rs")]
mod cluster;
pub mod credentials;
pub(crate) mod host;
mod invalid;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod mapped;
mod percent;
mod pieces;
#[cfg_attr(not(feature = "sentinel"), path = "endpoint/sentinel/off.rs")]
mod sentinel;
mod server;
mod target;
#[cfg(all(test, feature = "cluster", feature = "sentinel"))]
mod tests;

pub use cluster::Seeds;
pub use invalid::{InvalidEndpoint, Part};
#[cfg(any(feature = "cluster", feature = "sentinel"))]
pub(crate) use mapped::Mapped;
pub use sentinel::Watched;
pub use server::Endpoint;
pub use target::Target;

pub use credentials::{Credentials, Login, Secret};
