//! A server that Sentinels watch over, of which there is none without the feature `sentinel`.

use super::endpoint::Watched;
use super::kin::Kin;
use super::place::{Listing, Unheard};

pub(crate) enum Service {}

impl Service {
    pub(crate) async fn find(watched: Watched, _: Kin) -> Result<Listing, Vec<Unheard>> {
        match watched {}
    }
}
