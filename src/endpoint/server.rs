//! One server.

use std::fmt;

use super::percent;
use crate::endpoint::credentials::Login;
use crate::net::transport::Address;

/// The default port.
pub(super) const PORT: u16 = 6379;

/// One server, and how to log in.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where to connect to.
    pub address: Address,
    /// The login; none if the URL has no password and there is no provider.
    pub login: Option<Login>,
    /// Which database to select.
    pub database: u32,
    /// Whether to connect over TLS; never to a Unix socket.
    pub tls: bool,
}

impl Endpoint {
    /// A server at another address, with the same settings.
    #[inline(never)]
    pub(crate) fn at(&self, address: Address) -> Self {
        let Self { login, database, tls, .. } = self;
        Self { address, login: login.clone(), database: *database, tls: *tls }
    }
}

/// By hand, so that it is compiled once: derived code is inlined into each caller.
impl Clone for Endpoint {
    #[inline(never)]
    fn clone(&self) -> Self {
        self.at(self.address.clone())
    }
}

/// As a `redis` URL without the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, login, database, tls } = self;
        let user = shown_user(login.as_ref().and_then(Login::user));
        let tls = if *tls { "s" } else { "" };
        match address {
            Address::Tcp { .. } => {
                write!(f, "redis{tls}://{user}{}/{database}", in_url(address))
            }
            #[cfg(unix)]
            Address::Unix { path } => {
                let path = percent::encode_path(path.as_os_str().as_encoded_bytes());
                write!(f, "redis+unix://{user}{path}?db={database}")
            }
        }
    }
}

/// The user, percent-encoded and with the `@` behind it; empty for the default user.
pub(super) fn shown_user(user: Option<&str>) -> String {
    user.map(|user| percent::encode(user.as_bytes()) + "@").unwrap_or_default()
}

/// The addresses that a URL lists.
#[cfg(any(feature = "cluster", feature = "sentinel"))]
pub(super) fn write_list(f: &mut fmt::Formatter<'_>, endpoints: &[Endpoint]) -> fmt::Result {
    for (index, Endpoint { address, .. }) in endpoints.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{}", in_url(address))?;
    }
    Ok(())
}

/// Writes the `%` of a zone as `%25`, as a zone may itself begin with `25`.
fn in_url(address: &Address) -> String {
    address.text().replace('%', "%25")
}
