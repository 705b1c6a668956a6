//! Asks a server to tell of hand-overs and of keys.

use super::link::Link;
use super::place::Place;
use super::subscription::{Subscription, Told};
use super::talk::To;
use crate::policy::Moment;

/// The server is to tell of the keys that the next command reads.
const CACHING: [&[u8]; 3] = [b"CLIENT", b"CACHING", b"YES"];

impl Link {
    /// Asks to be told, once for each connection. What the server refuses stays as it is, and on RESP2 nothing is told:
    /// then waiters ask again and again.
    pub(super) fn subscribe(&mut self, id: fn() -> u128, now: Moment) {
        if !self.is_ready() || !self.talk.is_resp3 || self.talk.told.is_asked || self.is_asking() {
            return;
        }
        self.talk.told = Subscription::asked(id());
        let channel = self.talk.told;
        let subscribe: [&[u8]; 2] = [b"SUBSCRIBE", channel.channel()];
        self.talk.write(&subscribe, Place::Subscribed, To::Told(Told::OfHandOvers), now);
        let track: [&[u8]; 5] = [b"CLIENT", b"TRACKING", b"ON", b"OPTIN", b"NOLOOP"];
        self.talk.command(&track, To::Nobody, now);
        // Whether keys are told of shows here: each right may be missing, and this needs both.
        self.talk.command(&CACHING, To::Told(Told::OfKeys), now);
    }

    /// Whether the server may tell of the keys that the next command reads, which has not said that it does not.
    pub(super) fn watch_held(&mut self, id: fn() -> u128, now: Moment) -> bool {
        self.subscribe(id, now);
        let may_tell = self.talk.told.is_tracking || self.talk.told.is_awaited();
        self.watches(may_tell && self.is_ready(), now)
    }

    /// Whether the keys that the next command reads are watched from here on.
    pub(super) fn watch_next(&mut self, now: Moment) -> bool {
        self.watches(self.talk.told.is_tracking, now)
    }

    fn watches(&mut self, may_tell: bool, now: Moment) -> bool {
        let may_tell = may_tell && !self.is_asking();
        if may_tell {
            self.talk.command(&CACHING, To::Nobody, now);
        }
        may_tell
    }

    /// Whether an `ASKING` stands before the next command, which nothing may come between.
    #[cfg_attr(
        not(any(test, feature = "cluster")),
        allow(clippy::unused_self, reason = "it does not")
    )]
    pub(super) fn is_asking(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.is_asking;
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }
}

#[cfg(test)]
mod tests;
