//! The URL of a service that Sentinels watch.

use std::fmt;

use super::pieces::Pieces;
use super::server::{shown_user, write_list};
use super::{Endpoint, InvalidEndpoint, Login, percent};

const PORT: u16 = 26379;

/// A service, and the Sentinels that know which server is its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Never empty.
    pub(crate) sentinels: Vec<Endpoint>,
    /// The Sentinels' name for the master and its replicas; never empty.
    pub(crate) service: String,
    /// How to connect to the service's servers, at whatever address.
    pub(crate) template: Endpoint,
}

impl Watched {
    pub(super) fn parse(pieces: &Pieces<'_>, tls: bool) -> Result<Self, InvalidEndpoint> {
        let (service, database) = (pieces.service()?, pieces.database_in_query()?.unwrap_or(0));
        let mut sentinels = pieces.endpoints(PORT, database, tls)?;
        let template = sentinels[0].clone();
        for sentinel in &mut sentinels {
            (sentinel.login, sentinel.database) = (None, 0);
        }
        Ok(Self { sentinels, service, template })
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.sentinels
    }

    pub(crate) fn template(&self) -> &Endpoint {
        &self.template
    }

    /// The servers, and the Sentinels.
    pub(crate) fn parts_mut(&mut self) -> (&mut Endpoint, &mut [Endpoint]) {
        (&mut self.template, &mut self.sentinels)
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
