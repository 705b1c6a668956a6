//! URLs of a Cluster or a service, without the feature for it.

use std::fmt;

use super::pieces::Pieces;
use super::{Endpoint, InvalidEndpoint};

/// Has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut<const IS_CLUSTER: bool> {}

#[allow(dead_code, reason = "each of the two needs some")]
impl<const IS_CLUSTER: bool> LeftOut<IS_CLUSTER> {
    pub(super) fn parse(_: &Pieces<'_>, _: bool) -> Result<Self, InvalidEndpoint> {
        let (what, feature) =
            if IS_CLUSTER { ("a Redis Cluster", "cluster") } else { ("Sentinels", "sentinel") };
        Err(InvalidEndpoint::LeftOut { what, feature })
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        match *self {}
    }

    pub(crate) fn template(&self) -> &Endpoint {
        match *self {}
    }
}

impl<const IS_CLUSTER: bool> fmt::Display for LeftOut<IS_CLUSTER> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
