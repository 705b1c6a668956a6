//! The URL of a service that Sentinels watch, which nobody can give without the feature `sentinel`.

use std::fmt;

use super::pieces::Pieces;
use super::{Endpoint, InvalidEndpoint, Login};

/// There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {}

impl Watched {
    pub(super) fn parse(_: &Pieces<'_>, _: bool) -> Result<Self, InvalidEndpoint> {
        Err(InvalidEndpoint::LeftOut { what: "Sentinels", feature: "sentinel" })
    }

    pub(crate) fn sentinels(&self) -> &[Endpoint] {
        match *self {}
    }

    pub(crate) fn into_template(self) -> Endpoint {
        match self {}
    }

    pub(crate) fn try_with<E>(
        self,
        _: impl FnOnce(Endpoint) -> Result<Endpoint, E>,
        _: Option<&Login>,
    ) -> Result<Self, E> {
        match self {}
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
