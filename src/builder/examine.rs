//! From settings to what is examined.

use super::Builder;
use super::assembly::Servers;
use crate::error::Error;
use crate::examine::{Candidates, Examination, Plan, Scratch, Standard, examine};
use crate::net::limits;
use crate::policy::Quorum;
use crate::server::endpoint::{Endpoint, Target};

impl Builder {
    /// Connects to each server and says what of it is fit for locks and what is not, with the reason
    /// and the cure: for people, for a health check, and before a deployment.
    ///
    /// All servers are examined at once, on connections of their own. Each is given the time to
    /// connect ([`Builder::connect_timeout`]) and a few of those that a command may take
    /// ([`Builder::command_timeout`]); one that hangs keeps nobody from being reported. Rights are
    /// tried on a key of a lock that nobody else has, under the prefix, which is deleted and ends
    /// after 5 s in any case; where a right is missing, the server may note that in its ACL LOG.
    ///
    /// A URL that cannot be read, a server that cannot be reached and a quorum that cannot be are
    /// findings, and no errors.
    ///
    /// Needs the feature `examine`, which adds no dependency.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::{Locker, Severity};
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
    /// [`Error::is_misuse`] for no server at all, and for settings with which
    /// [`Builder::connect`] would fail whatever the servers are: a TTL, a prefix, a timeout, a CA or
    /// a certificate.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened. A scratch key may stay for 5 s.
    pub async fn examine(&self) -> Result<Examination, Error> {
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
            // As the Sentinels are met, so is the server.
            Candidates::Service(watched) => (Servers::Fixed(watched.sentinels().to_vec()), 1),
        };
        let in_cluster = matches!(candidates, Candidates::Cluster(_));
        let is_service = matches!(candidates, Candidates::Service(_));
        let standard = Standard {
            ttl: self.defaults.ttl,
            restart_guard: self.guarded_ttl(),
            strict: self.strict,
            in_cluster,
            is_judged: self.is_judged(votes, is_service),
            command_timeout: self.command_timeout_or_default(),
        };
        let tls = self.tls_client(&servers)?;
        let plan = Plan {
            votes,
            quorum: Quorum::new(votes, self.quorum).map_err(|error| error.to_string()),
            settings: self.node_settings(tls, None, limits::OF_LISTS),
            standard,
            scratch: Scratch::new(&self.defaults.prefix)?,
            replicas: self.defaults.replicas.is_some(),
            candidates,
        };
        Ok(examine(plan).await)
    }

    /// What the URLs lead to; a wrong one keeps the others from nothing.
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
                Target::Server(endpoint) => {
                    self.with_login(endpoint).map_err(|error| error.to_string())
                }
                Target::Cluster(_) | Target::Sentinel(_) => Err(super::assembly::NOT_ALONE.into()),
            }
        };
        Candidates::Fixed(self.urls.iter().map(candidate).collect())
    }
}
