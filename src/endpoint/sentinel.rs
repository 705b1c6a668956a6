//! The URL of a service that Sentinels watch.

use std::fmt;

use super::pieces::Pieces;
use super::server::{shown_user, write_list};
use super::{Endpoint, InvalidEndpoint, Login, percent};

const PORT: u16 = 26379;

/// A service, and the Sentinels that know which server is its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// At least one.
    pub(crate) sentinels: Vec<Endpoint>,
    /// What the Sentinels call the master and its replicas; never empty.
    pub(crate) service: String,
    /// How the service's servers are reached, at whatever address they are.
    pub(crate) template: Endpoint,
}

impl Watched {
    pub(super) fn parse(pieces: &Pieces<'_>, tls: bool) -> Result<Self, InvalidEndpoint> {
        let addresses = pieces.addresses(PORT)?;
        let service = pieces.service()?;
        let database = pieces.database_in_query()?.unwrap_or(0);
        let login = pieces.credentials()?.map(Login::Fixed);
        let template = Endpoint { address: addresses[0].clone(), login, database, tls };
        let sentinel = |address| Endpoint { address, login: None, database: 0, tls };
        Ok(Self { sentinels: addresses.into_iter().map(sentinel).collect(), service, template })
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.sentinels
    }

    pub(crate) fn into_template(self) -> Endpoint {
        self.template
    }

    /// The same, with servers as `complete` has them, and Sentinels that are logged in to so.
    pub(crate) fn try_with<E>(
        self,
        complete: impl FnOnce(Endpoint) -> Result<Endpoint, E>,
        login: Option<&Login>,
    ) -> Result<Self, E> {
        let template = complete(self.template)?;
        let logged_in = |sentinel| Endpoint { login: login.cloned(), ..sentinel };
        let sentinels = self.sentinels.into_iter().map(logged_in).collect();
        Ok(Self { sentinels, service: self.service, template })
    }
}

/// As a URL without the password.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sentinels, service, template } = self;
        let tls = if template.tls { "s" } else { "" };
        let user = shown_user(template.login.as_ref().and_then(Login::user));
        write!(f, "redis{tls}-sentinel://{user}")?;
        write_list(f, sentinels)?;
        write!(f, "/{}?db={}", percent::encode(service.as_bytes()), template.database)
    }
}
