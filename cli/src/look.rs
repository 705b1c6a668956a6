//! What all of those take that look at locks.

use std::time::Duration;

use leasehold::{Locker, ServerFailure};

use crate::exit::Failure;
use crate::servers::Servers;
use crate::times::{TTL, duration};
use crate::words::complain;

/// How patient we are.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// How long a server may take to connect, and to answer each command
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    timeout: Duration,

    /// Longest TTL in use: of several servers, one that restarted less than that ago may have forgotten
    /// leases, so its word that a lock is free does not count
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    ttl: Duration,
}

impl Look {
    /// As many of the servers as are reachable.
    pub async fn connect(&self, servers: &Servers) -> Result<Locker, Failure> {
        let builder = servers.builder()?.ttl(self.ttl);
        let builder = builder.connect_timeout(self.timeout).command_timeout(self.timeout);
        Ok(builder.connect_to_any().await?)
    }
}

/// Says which servers could not be asked.
pub fn complain_of(failures: &[ServerFailure]) {
    for ServerFailure { server, reason, .. } in failures {
        complain(&format!("{server}: {reason}"));
    }
}
