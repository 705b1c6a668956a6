//! From settings to the servers to examine.

use super::assembly::Servers;
use super::{Builder, on_a_runtime};
use crate::endpoint::{Endpoint, Target};
use crate::error::Error;
use crate::examine::{Candidates, Capability, Examination, Plan, Scratch, Standard, examine};
use crate::machine::Settings;
use crate::names::{Key, is_tagged, marker};
#[cfg(feature = "cluster")]
use crate::net::limits::OF_LISTS;
use crate::policy::Quorum;

/// Markers for each node of a Cluster: a node with a third of the slots is almost sure to serve one of them.
const MARKERS_ASKED: u32 = 64;

impl Builder {
    /// Checks whether the servers are fit for locks, and says how to fix them: for people, for a health
    /// check, and before a deployment.
    ///
    /// All servers are checked at once, on connections of their own. Each may take
    /// [`Builder::connect_timeout`] and a few times [`Builder::command_timeout`]; a server that hangs
    /// does not delay the others. Rights are tried on scratch keys under the prefix, which are deleted,
    /// and expire after 5 s in any case; a server with an ACL records refused commands in its ACL LOG.
    ///
    /// The rights are those of locks: [`Builder::examine_for`] tries those of other uses too. With `Builder::scriptless` they
    /// are those of locks without scripts, and the scratch keys are left to expire.
    ///
    /// A wrong URL, a server that cannot be reached and an impossible quorum are findings, not errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Locker;
    /// use leasehold::examine::Severity;
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// let examination = builder.examine().await?;
    /// for (server, finding) in examination.all() {
    ///     println!("{}: {finding}", server.map_or("all", |server| &server.server));
    /// }
    /// assert!(examination.severity() < Severity::Error);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) outside of a tokio runtime, without any URL, and for settings with which [`Builder::connect`] would
    /// fail with any server: a TTL, a prefix, a timeout, a CA or a certificate.
    ///
    /// # Panics
    ///
    /// In a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened. A scratch key may stay for 5 s.
    pub async fn examine(&self) -> Result<Examination, Error> {
        self.examine_for(&[]).await
    }

    /// As [`Builder::examine`], and tries the rights that these uses need beside those of locks.
    ///
    /// # Errors
    ///
    /// As [`Builder::examine`]; and [`Misuse`](crate::ErrorKind::Misuse) for any use together with `Builder::scriptless`: all of
    /// them take scripts.
    ///
    /// # Panics
    ///
    /// As [`Builder::examine`].
    ///
    /// # Cancel safety
    ///
    /// As [`Builder::examine`].
    pub async fn examine_for(&self, uses: &[Capability]) -> Result<Examination, Error> {
        on_a_runtime()?;
        if self.urls.is_empty() {
            return Err(Error::misuse("no server was given: give at least one URL"));
        }
        self.check()?;
        let candidates = self.candidates();
        let (servers, votes) = match &candidates {
            Candidates::Fixed(all) => {
                let readable = all.iter().filter_map(|it| it.as_ref().ok().cloned()).collect();
                (Servers::Fixed(readable), all.len())
            }
            Candidates::Cluster(seeds) => (Servers::Cluster(seeds.clone()), 1),
            // The server is dialled with the same settings as the Sentinels.
            Candidates::Service(watched) => (Servers::Fixed(watched.endpoints().to_vec()), 1),
        };
        let in_cluster = matches!(candidates, Candidates::Cluster(_));
        let is_service = matches!(candidates, Candidates::Service(_));
        #[cfg(any(test, feature = "scriptless"))]
        self.check_scriptless(in_cluster, !uses.is_empty())?;
        let standard = Standard {
            ttl: self.defaults.ttl,
            restart_quarantine: self.guarded_ttl(),
            grace: self.failover_grace.then(|| self.max_ttl_in_use()),
            strict: self.refuse_evicting,
            in_cluster,
            is_scriptless: self.is_scriptless(),
            is_judged: self.is_judged(votes, is_service),
            command_timeout: self.command_timeout_or_default(),
        };
        let tls = self.tls_client(&servers)?;
        let plan = Plan {
            votes,
            quorum: Quorum::new(votes, self.quorum),
            ways: self.dialled(Vec::new(), tls, None),
            greeting: self.greeting(in_cluster),
            standard,
            scratch: Scratch::new(&self.defaults.prefix, uses, self.is_scriptless())?,
            markers: self.markers(in_cluster),
            candidates,
        };
        Ok(examine(plan).await)
    }

    fn is_scriptless(&self) -> bool {
        #[cfg(any(test, feature = "scriptless"))]
        return self.is_scriptless;
        #[cfg(not(any(test, feature = "scriptless")))]
        false
    }

    #[cfg_attr(not(feature = "cluster"), allow(unused_variables, reason = "there is none"))]
    fn greeting(&self, in_cluster: bool) -> Settings {
        let settings = self.machine_settings(Quorum::all(1), None, &[]);
        #[cfg(feature = "cluster")]
        if in_cluster {
            return Settings { limits: OF_LISTS, ..settings };
        }
        settings
    }

    /// Markers in different slots, so that each node of a Cluster serves some.
    fn markers(&self, in_cluster: bool) -> Box<[Key]> {
        let prefix = &self.defaults.prefix;
        let count = if is_tagged(prefix) { 1 } else { MARKERS_ASKED };
        match (self.failover_grace, in_cluster) {
            (false, _) => Box::default(),
            (true, false) => Box::new([marker(prefix, None)]),
            (true, true) => (0..count).map(|number| marker(prefix, Some(number))).collect(),
        }
    }

    /// What the URLs lead to; a wrong URL does not keep the others from being examined.
    fn candidates(&self) -> Candidates {
        if self.urls.len() == 1 {
            return match self.servers() {
                Ok(Servers::Fixed(endpoints)) => {
                    Candidates::Fixed(endpoints.into_iter().map(Ok).collect())
                }
                Ok(Servers::Cluster(seeds)) => Candidates::Cluster(seeds),
                Ok(Servers::Service(watched)) => Candidates::Service(watched),
                Err(error) => Candidates::Fixed(vec![Err(error.to_string())]),
            };
        }
        let candidate = |url: &String| -> Result<Endpoint, String> {
            match Target::parse(url).map_err(|error| error.to_string())? {
                Target::Server(mut endpoint) => {
                    let set = self.set(&mut endpoint);
                    set.map(|()| endpoint).map_err(|error| error.to_string())
                }
                Target::Cluster(_) | Target::Sentinel(_) => Err(super::assembly::NOT_ALONE.into()),
            }
        };
        Candidates::Fixed(self.urls.iter().map(candidate).collect())
    }
}
