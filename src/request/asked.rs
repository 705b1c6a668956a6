//! A request's settings, and their check.

use std::time::Duration;

use super::way::Way;
use crate::api::Locker as Front;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::error::value::check_label;
use crate::policy::Term;
#[cfg(any(test, feature = "takeover"))]
use crate::policy::Wait;
use crate::request::order::{Order, Wish};

/// A request's settings, unchecked: awaiting the request reports what is wrong.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) wish: Wish,
    /// How several locks are acquired, all or one: a function, so that only programs that use it contain its code.
    pub(super) way: Option<fn(&Front, &Wish) -> Way>,
    /// None for the locker's TTL.
    pub(super) ttl: Option<Duration>,
    pub(super) min_validity: Option<Duration>,
    /// What was wrong when the request was made.
    pub(super) wrong: Option<Error>,
}

impl Asked {
    /// Completes the wish by the settings, or says what is wrong with them.
    pub(super) fn check(&mut self, defaults: &Defaults, is_fenced: bool) -> Result<(), Error> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        if self.ttl.is_some() || self.min_validity.is_some() {
            self.wish.order.term = self.term(defaults)?;
        }
        self.wish.order.is_fenced = is_fenced;
        #[cfg(any(test, feature = "sharing"))]
        self.check_shared()?;
        #[cfg(any(test, feature = "takeover"))]
        self.check_seized()?;
        let Wish { order: Order { term, label, bounds, .. }, retry, .. } = &self.wish;
        bounds.check().map_err(Error::misuse)?;
        defaults.check_kept(*term, *bounds)?;
        label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        retry.check().map_err(Error::misuse)
    }

    fn term(&self, defaults: &Defaults) -> Result<Term, Error> {
        let ttl = self.ttl.unwrap_or(defaults.ttl);
        let min_validity = self.min_validity.or(defaults.min_validity);
        Term::new(ttl, min_validity).map_err(Error::misuse)
    }

    /// Refuses what shared locks cannot have.
    #[cfg(any(test, feature = "sharing"))]
    fn check_shared(&self) -> Result<(), Error> {
        let Order { bounds, sharing, .. } = &self.wish.order;
        let is_kept = bounds.at_least.is_some() || bounds.lock_delay.is_some();
        if sharing.is_none() {
            return Ok(());
        }
        if self.way.is_some() {
            return Err(Error::misuse(
                "a request for a reader, a writer or a permit is for one name",
            ));
        }
        #[cfg(any(test, feature = "takeover"))]
        let is_kept = is_kept || self.wish.order.seize.is_some();
        if is_kept {
            return Err(Error::misuse(
                "steal, hold_at_least and lock_delay are for locks, not for readers, writers or permits",
            ));
        }
        Ok(())
    }

    #[cfg(any(test, feature = "takeover"))]
    fn check_seized(&mut self) -> Result<(), Error> {
        if self.wish.order.seize.is_none() {
            return Ok(());
        }
        if self.way.is_some() {
            return Err(Error::misuse(
                "steal takes one lock: neither lock_all nor lock_any, nor a permit over several servers",
            ));
        }
        // A request that takes a lock never waits.
        self.wish.wait = Wait::Never;
        Ok(())
    }
}
