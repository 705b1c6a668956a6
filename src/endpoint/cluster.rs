//! The URL of a Cluster.

use std::fmt;

use super::pieces::Pieces;
use super::server::{PORT, shown_user, write_list};
use super::{Endpoint, InvalidEndpoint, Login};

/// Some nodes of a Cluster: at least one, all with the same credentials, database and `tls`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<Endpoint>);

impl Seeds {
    pub(super) fn parse(pieces: &Pieces<'_>, tls: bool) -> Result<Self, InvalidEndpoint> {
        pieces.endpoints(PORT, pieces.database()?, tls).map(Self)
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.0
    }

    pub(crate) fn endpoints_mut(&mut self) -> &mut [Endpoint] {
        &mut self.0
    }
}

impl From<Vec<Endpoint>> for Seeds {
    fn from(endpoints: Vec<Endpoint>) -> Self {
        Self(endpoints)
    }
}

/// As a URL without the password.
impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.0[0];
        let tls = if first.tls { "s" } else { "" };
        let user = shown_user(first.login.as_ref().and_then(Login::user));
        write!(f, "redis{tls}-cluster://{user}")?;
        write_list(f, &self.0)?;
        match first.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}
