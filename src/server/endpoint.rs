//! Where a server is and how to log in: the URL that the user gives.
//!
//! Nothing is resolved or opened here. A URL can hold a password, and a mistyped one can hold it
//! anywhere, so no error, no `Debug` and no `Display` of this module repeats what it read: see
//! [`InvalidEndpoint`].

use std::fmt;

#[cfg_attr(not(feature = "cluster"), path = "endpoint/cluster/off.rs")]
mod cluster;
mod invalid;
mod percent;
mod pieces;
#[cfg_attr(not(feature = "sentinel"), path = "endpoint/sentinel/off.rs")]
mod sentinel;
mod target;
#[cfg(all(test, feature = "cluster", feature = "sentinel"))]
mod tests;

pub use cluster::Seeds;
pub use invalid::{InvalidEndpoint, Part};
pub use sentinel::Watched;
pub use target::Target;

pub use super::credentials::{Credentials, Login, Secret};
use crate::net::transport::Address;

/// One server, and how to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where to connect to.
    pub address: Address,
    /// How to log in; none where the URL has no password, and there is no provider of one.
    pub login: Option<Login>,
    /// Which database to select.
    pub database: u32,
    /// Whether to connect over TLS; never to a Unix socket.
    pub tls: bool,
}

/// As a `redis` URL without the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, login, database, tls } = self;
        let user = shown_user(login.as_ref().and_then(Login::user));
        let tls = if *tls { "s" } else { "" };
        match address {
            Address::Tcp { .. } => write!(f, "redis{tls}://{user}{address}/{database}"),
            #[cfg(unix)]
            Address::Unix { path } => {
                let path = percent::encode_path(path.as_os_str().as_encoded_bytes());
                write!(f, "redis+unix://{user}{path}?db={database}")
            }
        }
    }
}

/// The user, percent-encoded and with the `@` behind it; empty for the default user.
fn shown_user(user: Option<&str>) -> String {
    user.map(|user| percent::encode(user.as_bytes()) + "@").unwrap_or_default()
}
