//! From settings to servers: where the URLs lead, and whether the settings are valid.

use std::time::Duration;

use super::{Builder, security};
#[cfg(any(test, feature = "credentials"))]
use crate::endpoint::credentials::Login;
use crate::endpoint::{Endpoint, Seeds, Target, Watched};
use crate::error::Error;
use crate::error::value::check_label;
use crate::net::tls::Client;
use crate::policy::fitness::{self, Rules};
use crate::policy::{Term, Units};

const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// With several servers the command timeout is the TTL divided by this: a slow server should cost a vote, not the
/// lease's validity.
const TTL_SHARE: u32 = 20;
/// Minimum of that timeout, which a healthy server needs on a busy day.
const COMMAND_TIMEOUT_FLOOR: Duration = Duration::from_millis(50);
/// Minimum timeout: below it a busy machine's scheduling alone breaks connections.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Maximum timeout: above it a dead server is not noticed in useful time.
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// The error for the URL of a Cluster or a service beside other URLs.
pub(super) const NOT_ALONE: &str = "a redis-cluster:// or redis-sentinel:// URL must be given \
                                    alone: a quorum needs independent servers, by redis:// URLs";

/// What the URLs lead to.
pub(super) enum Servers {
    /// Servers at fixed addresses, each with a vote.
    Fixed(Vec<Endpoint>),
    /// Some nodes of a Cluster, which has one vote.
    Cluster(Seeds),
    /// A service that Sentinels watch, which has one vote.
    Service(Watched),
}

impl Servers {
    /// The number of votes.
    pub(super) fn places(&self) -> usize {
        match self {
            Self::Fixed(endpoints) => endpoints.len(),
            Self::Cluster(_) | Self::Service(_) => 1,
        }
    }
}

impl Builder {
    pub(super) fn servers(&self) -> Result<Servers, Error> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for url in &self.urls {
            match Target::parse(url).map_err(Error::misuse)? {
                Target::Server(mut endpoint) => {
                    self.set(&mut endpoint)?;
                    endpoints.push(endpoint);
                }
                #[cfg(feature = "cluster")]
                Target::Cluster(mut seeds) if self.urls.len() == 1 => {
                    seeds.endpoints_mut().iter_mut().try_for_each(|seed| self.set(seed))?;
                    return Ok(Servers::Cluster(seeds));
                }
                #[cfg(feature = "sentinel")]
                Target::Sentinel(mut watched) if self.urls.len() == 1 => {
                    let (template, sentinels) = watched.parts_mut();
                    self.set(template)?;
                    let login = self.sentinel_login.as_ref();
                    sentinels.iter_mut().for_each(|sentinel| sentinel.login = login.cloned());
                    return Ok(Servers::Service(watched));
                }
                Target::Cluster(_) | Target::Sentinel(_) => {
                    return Err(Error::misuse(NOT_ALONE));
                }
            }
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            if endpoints[..index].iter().any(|other| other.address == endpoint.address) {
                let address = &endpoint.address;
                return Err(Error::misuse(format_args!(
                    "server {address} is given twice: a quorum needs independent servers"
                )));
            }
        }
        Ok(Servers::Fixed(endpoints))
    }

    /// Applies the settings, such as the provider of credentials, to the server of a URL.
    #[cfg_attr(
        not(any(test, feature = "credentials", feature = "streams")),
        allow(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            unused_variables,
            reason = "it stays"
        )
    )]
    pub(super) fn set(&self, endpoint: &mut Endpoint) -> Result<(), Error> {
        #[cfg(all(unix, feature = "streams"))]
        self.check_connector(endpoint)?;
        #[cfg(any(test, feature = "credentials"))]
        if let Some(provider) = &self.credentials {
            if endpoint.login.is_some() {
                return Err(Error::misuse(format_args!(
                    "the URL of {} has a password, and a credentials provider was given: leave \
                     one of them out",
                    endpoint.address
                )));
            }
            endpoint.login = Some(Login::Provided(provider.clone()));
        }
        Ok(())
    }

    /// TLS settings for servers over TLS.
    pub(super) fn tls_client(&self, servers: &Servers) -> Result<Option<Client>, Error> {
        let endpoints = match servers {
            Servers::Fixed(endpoints) => endpoints,
            Servers::Cluster(seeds) => seeds.endpoints(),
            Servers::Service(watched) => watched.endpoints(),
        };
        #[cfg(feature = "tls")]
        return security::client(self.tls.as_ref(), endpoints);
        #[cfg(not(feature = "tls"))]
        security::client(endpoints)
    }

    /// The longest TTL for which the restart quarantine has to wait, if it is on.
    pub(super) fn guarded_ttl(&self) -> Option<Duration> {
        let is_on = self.restart_quarantine.unwrap_or(self.urls.len() > 1);
        is_on.then(|| self.max_ttl_in_use())
    }

    /// The maximum TTL that anything waits for: a request for a longer one is refused.
    pub(super) fn ttl_in_force(&self) -> Option<Duration> {
        #[cfg(any(test, feature = "grace"))]
        if self.failover_grace {
            return Some(self.max_ttl_in_use());
        }
        self.guarded_ttl()
    }

    pub(super) fn max_ttl_in_use(&self) -> Duration {
        self.max_ttl.unwrap_or(self.defaults.ttl)
    }

    #[inline(never)]
    pub(super) fn command_timeout_or_default(&self) -> Duration {
        let share = self.defaults.ttl / TTL_SHARE;
        self.command_timeout.unwrap_or(if self.urls.len() > 1 {
            share.clamp(COMMAND_TIMEOUT_FLOOR, DEFAULT_COMMAND_TIMEOUT)
        } else {
            DEFAULT_COMMAND_TIMEOUT
        })
    }

    /// Whether servers must report that they are fit.
    pub(super) fn is_judged(&self, places: usize, is_service: bool) -> bool {
        // A service's server must report that it is the master.
        places > 1 || self.restart_quarantine == Some(true) || self.refuse_evicting || is_service
    }

    /// What a server must report before it votes; none if any server may vote.
    pub(super) fn rules(&self, servers: &Servers) -> Option<Rules> {
        let is_service = matches!(servers, Servers::Service(_));
        let is_judged = self.is_judged(servers.places(), is_service);
        is_judged.then(|| Rules {
            restart_quarantine: self.guarded_ttl(),
            strict: self.refuse_evicting,
            in_cluster: matches!(servers, Servers::Cluster(_)),
            #[cfg(any(test, feature = "sentinel"))]
            by_sentinels: is_service,
        })
    }

    /// The sections of INFO to request if allowed, beside those that the rules need: a single server may lose its
    /// memory, and its name may move.
    pub(super) fn info_if_allowed(
        &self,
        servers: &Servers,
        is_judged: bool,
    ) -> &'static [&'static str] {
        match (servers, is_judged) {
            (Servers::Fixed(_), false) => &fitness::OF_ONE,
            (Servers::Fixed(one), true) if one.len() == 1 && self.guarded_ttl().is_none() => {
                &[fitness::PERSISTENCE]
            }
            (Servers::Cluster(_), false) => &fitness::OF_NODES,
            _ => &[],
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        Term::new(self.defaults.ttl, self.defaults.min_validity).map_err(Error::misuse)?;
        self.defaults.label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        self.defaults.retry.check().map_err(Error::misuse)?;
        if let Some(longest) = self.max_ttl {
            Term::new(longest, None).map_err(Error::misuse)?;
            if longest < self.defaults.ttl {
                return Err(Error::misuse(format_args!(
                    "longest TTL {} is shorter than the TTL, {}: raise Builder::max_ttl (--max-ttl)",
                    Units(longest),
                    Units(self.defaults.ttl)
                )));
            }
        }
        for (what, timeout) in [
            ("command timeout", self.command_timeout_or_default()),
            ("connect timeout", self.connect_timeout),
        ] {
            if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout) {
                return Err(Error::misuse(format_args!(
                    "{what} must be {} to {}, not {}",
                    Units(TIMEOUT_MIN),
                    Units(TIMEOUT_MAX),
                    Units(timeout)
                )));
            }
        }
        Ok(())
    }
}
