//! A Redis Cluster, of which there is none without the feature `cluster`.

use super::endpoint::Seeds;
use super::kin::Kin;
use super::place::{Listing, Unheard};

pub(crate) enum Cluster {}

impl Cluster {
    pub(crate) async fn find(seeds: Seeds, _: Kin) -> Result<Listing, Vec<Unheard>> {
        match seeds {}
    }
}
