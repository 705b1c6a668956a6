//! For how long servers keep a hold's keys.

use std::time::Duration;

use leasehold_resp::Decimal;

use super::Hold;
use crate::lock::order::Order;
use crate::lock::rare::Rest;
use crate::lock::row::{Row, Sharing};
use crate::policy::Loss;

impl Hold {
    /// What it wants of a lock that others may have shares of.
    pub(in crate::lock) fn sharing(&self) -> Option<Sharing> {
        self.rare.as_ref()?.sharing
    }

    /// An order like its own for something else of the same lock.
    pub(in crate::lock) fn turned(&self, sharing: Sharing) -> Order {
        let Self { term, is_renewed, .. } = *self;
        Order {
            term,
            label: None,
            is_fenced: self.token().is_some(),
            is_renewed,
            bounds: self.bounds(),
            seize: None,
            sharing: Some(sharing),
            priority: None,
            is_part: false,
        }
    }

    /// Which kind of lease it is.
    pub(in crate::lock) fn row(&self) -> &'static Row {
        Row::of(self.sharing())
    }

    /// How long its keys live on servers: longer than its TTL where there is a lock-delay, which its
    /// holder does not count on.
    pub(in crate::lock) fn key_life(&self) -> Duration {
        self.bounds().key_life(self.term.ttl())
    }

    /// The same in milliseconds.
    #[inline(never)]
    pub(in crate::lock) fn key_ms(&self) -> Decimal {
        Decimal::new(u64::try_from(self.key_life().as_millis()).unwrap_or(u64::MAX))
    }

    /// Its holder knows of it: from here on its locks stay taken for as long as that one asked for.
    pub(in crate::lock) fn begin_rest(&self) {
        let Some((rare, at_least)) = self.rare.as_ref().zip(self.bounds().at_least) else { return };
        let until = self.granted_at().after(at_least);
        rare.rest.get_or_init(|| Rest { until, value: self.owner.another() });
    }

    /// For how long its locks stay taken once it is given back, if they do.
    pub(in crate::lock) fn rest(&self) -> Option<&Rest> {
        self.rare.as_ref()?.rest.get().filter(|rest| rest.left().is_some())
    }

    /// Whether nobody gives back its locks, because its time was over before: they stay taken for the
    /// lock-delay.
    pub(in crate::lock) fn is_left_to_expire(&self) -> bool {
        let is_over = |why| matches!(why, Loss::Expired | Loss::Suspended | Loss::HeldLongest);
        self.bounds().lock_delay.is_some() && self.state().loss().is_some_and(is_over)
    }
}
