//! From settings to a machine that is driven.

use std::sync::Arc;

use super::Builder;
#[cfg(feature = "sentinel")]
use super::assembly::Servers as Targets;
use crate::api::Locker as Front;
use crate::api::outcome::met;
#[cfg(feature = "cluster")]
use crate::driver::cluster::Keeper;
#[cfg(feature = "sentinel")]
use crate::driver::sentinels::Watch;
use crate::error::Error;
#[cfg(feature = "sentinel")]
use crate::extra::Releases;
#[cfg(any(test, feature = "groups"))]
use crate::names::Names;
use crate::policy::Quorum;
use crate::stats::Meter;
use crate::{clock, driver};

/// The name of the lock of those that have their turn to collect several locks.
#[cfg(any(test, feature = "groups"))]
const TURNS: &[u8] = b"leasehold:turn";

impl Builder {
    /// What a locker stands on, once this number of servers serve.
    pub(super) async fn front(&self, least: fn(Quorum) -> usize) -> Result<Front, Error> {
        let targets = self.servers()?;
        #[cfg(feature = "sentinel")]
        let watched = if let Targets::Service(it) = &targets { Some(it.clone()) } else { None };
        let (machine, servers, quorum) = self.machine(targets)?;
        #[cfg(feature = "sentinel")]
        let (machine, servers, watch) =
            Watch::begin(watched, machine, servers, Box::new(Releases::default())).await?;
        let votes = servers.votes();
        let meter = Arc::new(Meter::new(self.observer.clone()));
        let (driver, task) = driver::new(machine, servers, meter);
        drop(clock::spawn(task));
        #[cfg(feature = "sentinel")]
        if let Some(watch) = watch {
            drop(clock::spawn(watch.follow(Arc::downgrade(&driver))));
        }
        let front = Front {
            driver,
            #[cfg(any(test, feature = "groups"))]
            turns: Names::new(&self.defaults.prefix, TURNS).ok(),
        };
        #[cfg(feature = "cluster")]
        if let Some(keeper) = Keeper::of(&front.driver) {
            keeper.begin(&front.driver).await?;
            return Ok(front);
        }
        met(front.meet().await, votes, least(quorum))?;
        Ok(front)
    }
}
