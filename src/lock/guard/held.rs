//! Which engine keeps a guard's lease, until the machine has taken the place of the other.

use std::time::Duration;

use crate::api;
use crate::error::{Error, Report};
use crate::lock::lease::Lease;
use crate::lock::row::Sharing;
use crate::lock::ticket::Ticket;
use crate::policy::Loss;

const NOT_YET: &str = "the machine has no tickets and no turns yet";

pub(crate) enum Held {
    Engine(Lease),
    Machine(api::Lease),
}

impl From<Lease> for Held {
    fn from(lease: Lease) -> Self {
        Self::Engine(lease)
    }
}

impl Held {
    pub(crate) fn begin_rest(&self) {
        if let Self::Engine(lease) = self {
            lease.begin_rest();
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Engine(lease) => lease.token(),
            Self::Machine(lease) => Some(lease.token()),
        }
    }

    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Self::Engine(lease) => lease.name(),
            Self::Machine(lease) => lease.name(),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let (several, one) = match self {
            Self::Engine(lease) => (Some(lease.names()), None),
            Self::Machine(lease) => (None, Some(lease.name())),
        };
        several.into_iter().flatten().chain(one)
    }

    pub(crate) fn report(&self) -> Report {
        match self {
            Self::Engine(lease) => lease.report(),
            Self::Machine(lease) => lease.report(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Engine(lease) => lease.remaining(),
            Self::Machine(lease) => lease.remaining(),
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        match self {
            Self::Engine(lease) => lease.loss(),
            Self::Machine(lease) => lease.loss(),
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        match self {
            Self::Engine(lease) => lease.lost().await,
            Self::Machine(lease) => lease.lost().await,
        }
    }

    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        match self {
            Self::Engine(lease) => lease.run(work).await,
            Self::Machine(lease) => lease.run(work).await,
        }
    }

    pub(crate) async fn extend(&self) -> Result<(), Error> {
        match self {
            Self::Engine(lease) => lease.extend().await,
            Self::Machine(lease) => lease.extend().await,
        }
    }

    pub(crate) async fn replicated(&self, replicas: u32, within: Duration) -> Result<u32, Error> {
        match self {
            Self::Engine(lease) => lease.replicated(replicas, within).await,
            Self::Machine(_) => Err(Error::misuse("the machine has no WAIT yet")),
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Engine(lease) => lease.release().await,
            Self::Machine(lease) => lease.release().await,
        }
    }

    pub(crate) fn release_later(self) -> Result<(), Error> {
        match self {
            Self::Engine(lease) => lease.release_later(),
            Self::Machine(lease) => lease.release_later(),
        }
    }

    pub(crate) async fn into_ticket(self, within: Duration) -> Result<Ticket, Error> {
        match self {
            Self::Engine(lease) => lease.into_ticket(within).await,
            Self::Machine(_) => Err(Error::misuse(NOT_YET)),
        }
    }

    pub(crate) async fn turn(&mut self, to: Sharing) -> Result<(), Error> {
        match self {
            Self::Engine(lease) => lease.turn(to).await,
            Self::Machine(_) => Err(Error::misuse(NOT_YET)),
        }
    }
}
