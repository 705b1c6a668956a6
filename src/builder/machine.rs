//! From settings to a machine, and to the addresses of its servers.

use std::mem::take;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use super::assembly::Servers as Targets;
#[cfg(feature = "blocking")]
use crate::blocking;
use crate::clock;
#[cfg(feature = "cluster")]
use crate::cluster::map::nodes_of;
use crate::driver::Servers;
#[cfg(feature = "sentinel")]
use crate::driver::service::Service;
use crate::endpoint::Endpoint;
use crate::error::Error;
#[cfg(feature = "sentinel")]
use crate::extra::Releases;
#[cfg(feature = "cluster")]
use crate::extra::cluster::ROUTING;
#[cfg(any(test, feature = "scriptless"))]
use crate::extra::scriptless::in_the_place_of;
use crate::extra::{self, QUEUE};
use crate::fingerprint::{fingerprint, rank};
#[cfg(any(test, feature = "grace"))]
use crate::machine::Grace;
use crate::machine::{LIMITS, Machine, Settings};
#[cfg(feature = "cluster")]
use crate::net::limits::OF_LISTS;
use crate::net::tls::Client;
#[cfg(any(test, feature = "credentials"))]
use crate::net::transport::GREETING_SHARE;
use crate::policy::Quorum;
use crate::policy::fitness::Rules;
use crate::scripts;

/// The longest time from sending a command until a server may run it.
const FLIGHT_MAX: Duration = Duration::from_secs(60);

impl Builder {
    /// Connects as [`Builder::connect`] does, for programs without async.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]; and [`Misuse`](crate::ErrorKind::Misuse) for a Cluster, Sentinels, TLS, a provider
    /// of credentials, a connector and an observer.
    #[cfg(feature = "blocking")]
    pub fn connect_blocking(self) -> Result<blocking::Locker, Error> {
        // Checked before the missing feature, whose error would not help.
        let has_scheme = |url: &str, kind| {
            let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
            scheme.is_some_and(|scheme| scheme.ends_with(kind))
        };
        if self
            .urls
            .iter()
            .any(|url| ["-cluster", "-sentinel"].iter().any(|it| has_scheme(url, it)))
        {
            return Err(Error::misuse("a Cluster or a Sentinel service needs the async Locker"));
        }
        let mut targets = self.servers()?;
        let has_tls = matches!(&targets, Targets::Fixed(all) if all.iter().any(|it| it.tls));
        #[cfg(any(test, feature = "credentials"))]
        let is_asked = self.credentials.is_some();
        #[cfg(not(any(test, feature = "credentials")))]
        let is_asked = false;
        if has_tls || is_asked || self.connector.is_some() || self.observer.is_some() {
            let what =
                "TLS, a provider of credentials, a connector and an observer need the async Locker";
            return Err(Error::misuse(what));
        }
        let machine = self.machine(&mut targets)?;
        blocking::Locker::start(machine, self.checked_defaults()?)
    }

    /// Takes the servers out of the targets, if they stay where they are.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for invalid settings.
    pub(super) fn machine(
        &self,
        targets: &mut Targets,
    ) -> Result<(Machine, Servers, Quorum), Error> {
        let quorum = Quorum::new(targets.places(), self.quorum).map_err(Error::misuse)?;
        self.check()?;
        let rules = self.rules(targets);
        let info_if_allowed = self.info_if_allowed(targets, rules.is_some());
        let tls = self.tls_client(targets)?;
        let is_several = targets.places() > 1;
        #[cfg(any(test, feature = "scriptless"))]
        self.check_scriptless(matches!(targets, Targets::Cluster(_)), false)?;
        let endpoints = match targets {
            Targets::Fixed(endpoints) => take(endpoints),
            // The template; its master is to be found.
            Targets::Service(watched) => vec![watched.template().clone()],
            // The seeds; the masters are to be found.
            Targets::Cluster(seeds) => seeds.endpoints().to_vec(),
        };
        #[cfg_attr(not(feature = "cluster"), allow(unused_mut, reason = "they stay"))]
        let mut settings = self.machine_settings(quorum, rules, info_if_allowed);
        let addresses: Vec<_> = endpoints.iter().map(|at| at.address.text()).collect();
        let fingerprint = is_several.then(|| fingerprint(&addresses, quorum.needed()));
        #[cfg_attr(
            not(any(feature = "cluster", feature = "sentinel")),
            allow(unused_mut, reason = "they stay")
        )]
        let mut servers = self.dialled(endpoints, tls, fingerprint);
        #[cfg(feature = "cluster")]
        if let Targets::Cluster(_) = targets {
            (servers.nodes, settings.limits) = (Some(Arc::default()), OF_LISTS);
            settings.nodes_of = Some(nodes_of);
        }
        #[cfg(feature = "sentinel")]
        if let Targets::Service(_) = targets {
            servers.service = Some(Arc::new(Service::new(servers.endpoints[0].clone())));
        }
        #[cfg_attr(
            not(any(test, feature = "cluster", feature = "grace", feature = "sentinel")),
            allow(unused_mut, reason = "its keys stay")
        )]
        let mut machine = Machine::new(addresses, settings, clock::now());
        #[cfg(feature = "sentinel")]
        if servers.service.is_some() {
            machine.leads_nowhere(0);
            machine.remembers(0, Box::new(Releases::default()));
        }
        #[cfg(feature = "cluster")]
        if servers.nodes.is_some() {
            machine.routes_by(ROUTING);
        }
        #[cfg(any(test, feature = "grace"))]
        if self.failover_grace {
            machine.keeps_grace(Grace {
                longest_ttl: self.max_ttl_in_use(),
                prefix: self.defaults.prefix.clone().into(),
                script: scripts::REIGN,
            });
        }
        Ok((machine, servers, quorum))
    }

    pub(super) fn machine_settings(
        &self,
        quorum: Quorum,
        rules: Option<Rules>,
        info_if_allowed: &'static [&'static str],
    ) -> Settings {
        Settings {
            quorum,
            timeout: self.command_timeout_or_default(),
            connect_timeout: self.connect_timeout,
            rules,
            info_if_allowed,
            limits: LIMITS,
            #[cfg(any(test, feature = "cluster"))]
            nodes_of: None,
            flight_max: FLIGHT_MAX,
            scripts: scripts::of_locks(extra::SCRIPTS),
            #[cfg(any(test, feature = "scriptless"))]
            scriptless: self.is_scriptless.then_some(in_the_place_of),
            waits: &QUEUE,
            rank,
            random: clock::random_bits,
            owner_id: clock::owner_id,
            wall_micros: clock::wall_micros,
        }
    }

    /// How servers are dialled.
    pub(super) fn dialled(
        &self,
        endpoints: Vec<Endpoint>,
        tls: Option<Client>,
        fingerprint: Option<Box<str>>,
    ) -> Servers {
        let connect_timeout = self.connect_timeout;
        Servers {
            endpoints: endpoints.into(),
            #[cfg(feature = "cluster")]
            nodes: None,
            #[cfg(feature = "sentinel")]
            service: None,
            #[cfg(any(feature = "cluster", feature = "sentinel"))]
            mapped: self.mapped.clone(),
            connector: self.connector.clone(),
            tls,
            fingerprint,
            connect_timeout,
            #[cfg(any(test, feature = "credentials"))]
            credentials_within: connect_timeout - connect_timeout / GREETING_SHARE,
            dead_after: 2 * self.command_timeout_or_default(),
        }
    }
}
