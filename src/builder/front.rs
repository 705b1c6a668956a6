//! From settings to a machine that is driven.

use std::sync::Arc;

use super::Builder;
use super::assembly::Servers as Targets;
use crate::api::Locker as Front;
use crate::api::outcome::met;
use crate::driver::Servers;
#[cfg(feature = "cluster")]
use crate::driver::cluster::Keeper;
#[cfg(feature = "sentinel")]
use crate::driver::sentinels::Watch;
use crate::error::Error;
#[cfg(feature = "sentinel")]
use crate::extra::Releases;
use crate::machine::Machine;
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
        let servers = Arc::new(servers);
        #[cfg(feature = "sentinel")]
        let (mut watch, mut machine) = (Watch::of(watched, &servers, &machine), machine);
        #[cfg(feature = "sentinel")]
        if let Some(watch) = &mut watch {
            watch.begin(&mut machine, Box::new(Releases::default())).await?;
        }
        let votes = servers.votes();
        let front = self.driven(machine, servers);
        #[cfg(feature = "sentinel")]
        if let Some(watch) = watch {
            watch.begin_to_follow(&front.driver);
        }
        #[cfg(feature = "cluster")]
        if let Some(keeper) = Keeper::of(&front.driver) {
            keeper.begin(&front.driver).await?;
            return Ok(front);
        }
        met(front.meet().await, votes, least(quorum))?;
        Ok(front)
    }

    /// The same at once, whether any server serves or not.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse), where the settings cannot be.
    pub(super) fn front_at_once(&self) -> Result<Front, Error> {
        let targets = self.servers()?;
        if !matches!(targets, Targets::Fixed(_)) {
            return Err(Error::misuse(
                "a Cluster's nodes, or Sentinels, have to say where the servers are: use connect, and again if it fails",
            ));
        }
        let (machine, servers, _) = self.machine(targets)?;
        Ok(self.driven(machine, servers.into()))
    }

    fn driven(&self, machine: Machine, servers: Arc<Servers>) -> Front {
        let meter = Arc::new(Meter::new(self.observer.clone()));
        let (driver, task) = driver::new(machine, servers, meter);
        drop(clock::spawn(task));
        Front {
            driver,
            #[cfg(any(test, feature = "groups"))]
            turns: Names::new(&self.defaults.prefix, TURNS).ok().map(Arc::new),
        }
    }
}
