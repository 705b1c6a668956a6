//! What a request asks for, and whether it can be.

use std::sync::Arc;
use std::time::Duration;

use crate::defaults::Defaults;
use crate::error::Error;
use crate::lock::core::Core;
use crate::lock::names::Names;
use crate::lock::one_or_many::OneOrMany;
use crate::lock::order::{Order, Replicas, Seize, Wish};
use crate::lock::owner::check_label;
use crate::lock::row::Sharing;
use crate::policy::{Bounds, Retry, Term, Units, Wait};

/// What is asked for, unchecked: what is wrong with it is said when the request is awaited.
#[derive(Debug)]
pub(super) struct Asked {
    /// Or what is wrong with a name.
    pub(super) names: Result<OneOrMany<Names>, Error>,
    /// Where it is not the locker's.
    pub(super) ttl: Option<Duration>,
    pub(super) expected: Option<Duration>,
    pub(super) min_validity: Option<Duration>,
    pub(super) label: Option<Arc<str>>,
    /// Of a candidate of an election.
    pub(super) priority: Option<u8>,
    pub(super) wait: Wait,
    pub(super) retry: Retry,
    pub(super) is_renewed: bool,
    pub(super) is_fair: bool,
    pub(super) refuses_own: bool,
    /// Whether one of the locks is enough.
    pub(super) is_any: bool,
    pub(super) replicas: Option<Replicas>,
    pub(super) bounds: Bounds,
    /// The holder from which the lock is taken, if it is held.
    pub(super) seize: Option<Seize>,
    /// What is wanted of a lock that others may have shares of, or what is wrong with that.
    pub(super) sharing: Result<Option<Sharing>, Error>,
}

impl Asked {
    /// What is asked for, if it can be.
    pub(super) fn wish(
        self,
        core: &Core,
        defaults: &Defaults,
        is_fenced: bool,
    ) -> Result<Wish, Error> {
        let Self { names, ttl, expected, min_validity, label, is_renewed, replicas, .. } = self;
        let (wait, retry, is_fair, bounds) = (self.wait, self.retry, self.is_fair, self.bounds);
        let (refuses_own, is_any, seize) = (self.refuses_own, self.is_any, self.seize);
        let names = names?;
        let sharing = self.sharing?;
        if sharing.is_some() {
            let is_several = is_any || names.len() > 1;
            check_shared(is_several, seize.is_some(), bounds, core.is_single())?;
        }
        if seize.is_some() && (is_any || names.len() > 1) {
            return Err(Error::misuse("steal takes one lock: neither lock_all nor lock_any"));
        }
        // There is nobody to wait for.
        let wait = if seize.is_some() { Wait::Never } else { wait };
        let fitting = || defaults.ttl(core.meter(), expected);
        let ttl = match (ttl, expected) {
            (Some(ttl), None) => ttl,
            (Some(ttl), Some(_)) => fitting().map(|_| ttl)?,
            (None, _) => fitting()?,
        };
        let term = Term::new(ttl, min_validity).map_err(Error::misuse)?;
        bounds.check().map_err(Error::misuse)?;
        let (kept, what) = match bounds.lock_delay {
            None => (ttl, "TTL"),
            Some(delay) => (ttl + delay, "TTL with lock_delay"),
        };
        if let Some(longest) = core.longest_ttl().filter(|longest| kept > *longest) {
            return Err(Error::misuse(format_args!(
                "{what} {} exceeds the longest TTL, {}, for which restarted servers may not vote: raise \
                 Builder::longest_ttl on every client",
                Units(kept),
                Units(longest)
            )));
        }
        label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        retry.check().map_err(Error::misuse)?;
        replicas.map_or(Ok(()), Replicas::check).map_err(Error::misuse)?;
        let order = Order {
            term,
            label,
            priority: self.priority,
            is_fenced,
            is_renewed,
            replicas,
            bounds,
            seize,
            sharing,
        };
        Ok(Wish { names, order, wait, retry, is_fair, refuses_own, is_any })
    }
}

/// Refuses what does not go with a lock that others may have shares of.
fn check_shared(
    is_several: bool,
    is_seized: bool,
    bounds: Bounds,
    is_single: bool,
) -> Result<(), Error> {
    let wrong = if !is_single {
        "readers, writers and permits need one server, a Cluster or a Sentinel service: several servers do \
         not agree on a count"
    } else if is_several {
        "a request for a reader, a writer or a permit is for one name"
    } else if is_seized || bounds.at_least.is_some() || bounds.lock_delay.is_some() {
        "steal, hold_at_least and lock_delay are for locks, not for readers, writers or permits"
    } else {
        return Ok(());
    };
    Err(Error::misuse(wrong))
}
