//! The URL of a Cluster, which nobody can give without the feature `cluster`.

use std::fmt;

use super::pieces::Pieces;
use super::{Endpoint, InvalidEndpoint};

/// There are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {}

impl Seeds {
    pub(super) fn parse(_: &Pieces<'_>, _: bool) -> Result<Self, InvalidEndpoint> {
        Err(InvalidEndpoint::LeftOut { what: "a Redis Cluster", feature: "cluster" })
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        match *self {}
    }

    pub(crate) fn try_map<E>(
        self,
        _: impl FnMut(Endpoint) -> Result<Endpoint, E>,
    ) -> Result<Self, E> {
        match self {}
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
