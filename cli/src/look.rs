//! Options of all commands that only look at locks.

use std::time::Duration;

use leasehold::Locker;
use leasehold::inspect::ServerFailure;

use crate::exit::Failure;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::times::{TTL, duration};
use crate::waits::{self, Until};
use crate::words::complain;

/// How patient we are.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// How long a server may take to connect, and to answer each command unless --command-timeout is given
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    timeout: Duration,

    /// Longest TTL in use: of several servers, one that restarted less than that ago may have forgotten
    /// leases, so its word that a lock is free does not count
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    ttl: Duration,
}

impl Look {
    /// Connects to all reachable servers, at least one.
    pub async fn connect(&self, servers: &Servers) -> Result<Locker, Failure> {
        self.connect_within(servers, self.timeout).await
    }

    /// Waits until one of the servers is reachable.
    pub async fn wait(&self, servers: &Servers) -> Result<Locker, Failure> {
        let connect = async |within| self.connect_within(servers, within).await;
        waits::connect(Until::after(None), self.timeout, false, connect).await
    }

    async fn connect_within(&self, servers: &Servers, within: Duration) -> Result<Locker, Failure> {
        let pipes_within = self.timeout.max(PIPES_WITHIN);
        let builder =
            servers.builder(Some(pipes_within)).await?.ttl(self.ttl).connect_timeout(within);
        let builder = builder.command_timeout(servers.command_timeout.unwrap_or(self.timeout));
        Ok(builder.connect_for_inspection().await?)
    }
}

/// Prints which servers had no usable answer.
pub fn complain_of(failures: &[ServerFailure]) {
    for ServerFailure { server, reason, .. } in failures {
        complain(&format!("{server}: {reason}"));
    }
}
