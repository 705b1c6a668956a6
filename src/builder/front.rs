//! From settings to a machine with a driver.

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
use crate::machine::Machine;
#[cfg(any(test, feature = "groups"))]
use crate::names::Names;
use crate::policy::Quorum;
use crate::stats::Meter;
use crate::{clock, driver};

/// The name of the lock that a request holds in its turn to collect several locks.
#[cfg(any(test, feature = "groups"))]
const TURNS: &[u8] = b"leasehold:turn";

impl Builder {
    /// The front of a locker, once enough servers serve: `least` of the quorum.
    pub(super) async fn front(&self, least: fn(Quorum) -> usize) -> Result<Front, Error> {
        let mut targets = self.servers()?;
        let (machine, servers, quorum) = self.machine(&mut targets)?;
        let votes = servers.votes();
        let front = self.driven(machine, servers);
        #[cfg(feature = "sentinel")]
        if let Targets::Service(watched) = targets {
            Watch::of(watched, &front.driver).begin(&front.driver).await?;
        }
        #[cfg(feature = "cluster")]
        if let Some(keeper) = Keeper::of(&front.driver) {
            keeper.begin(&front.driver).await?;
            return Ok(front);
        }
        met(front.meet().await, votes, least(quorum))?;
        Ok(front)
    }

    /// The front of a locker at once, whether any server serves or not.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for invalid settings.
    pub(super) fn front_at_once(&self) -> Result<Front, Error> {
        let mut targets = self.servers()?;
        if !matches!(targets, Targets::Fixed(_)) {
            return Err(Error::misuse(
                "a Cluster's nodes, or Sentinels, have to say where the servers are: use connect, and again if it fails",
            ));
        }
        let (machine, servers, _) = self.machine(&mut targets)?;
        Ok(self.driven(machine, servers))
    }

    fn driven(&self, machine: Machine, servers: Servers) -> Front {
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
