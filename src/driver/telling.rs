//! Counts events and tells observers, outside of the mutex: an observer is a user's code.

use std::time::Duration;

use super::Shared;
use super::report::{refusal, refused};
use crate::clock;
use crate::machine::{Counts, Event};
#[cfg(any(test, feature = "credentials"))]
use crate::net::refusal::ServerError;
use crate::spans::Holds;
use crate::stats::{self, AtServer, BreakerState, Counter, Meter, ServerStats};

impl Shared {
    pub(super) fn count(&self, counts: Counts) {
        if counts == Counts::default() {
            return;
        }
        let meter = &self.meter;
        let Counts { attempts, unknown, repaired, woken, held, waiting } = counts;
        (0..attempts).for_each(|_| meter.count(Counter::Attempt));
        if held != 0 {
            meter.note_held(held);
        }
        if (unknown, repaired, woken, waiting) == (0, 0, 0, 0) {
            return;
        }
        (0..unknown).for_each(|_| meter.count(Counter::Unknown));
        (0..repaired).for_each(|_| meter.count(Counter::Repaired));
        (0..woken).for_each(|_| meter.count(Counter::Woken));
        if waiting != 0 {
            meter.note_waiting(waiting);
        }
    }

    #[cold]
    pub(super) fn tell(&self, event: Event) {
        let meter = &self.meter;
        match event {
            Event::Contended(names) => {
                let contended = stats::Event::Contended { name: names.lock() };
                meter.count_and_tell(Counter::Contended, contended);
            }
            #[cfg(any(test, feature = "_renewals"))]
            Event::Renews(id) => self.holds.renews(id),
            Event::Renewed(id, names, round_trip) => {
                self.holds.renewed(id, "renewed");
                meter.note_renewed(names.lock(), round_trip);
            }
            #[cfg(any(test, feature = "_renewals"))]
            Event::Overtaken(id) => self.holds.renewed(id, "overtaken"),
            Event::RenewalFailed(id, names) => {
                self.holds.renewed(id, "failed");
                let failed = stats::Event::RenewalFailed { name: names.lock() };
                meter.count_and_tell(Counter::RenewalFailed, failed);
            }
            Event::Lost(id, names, why) => {
                meter.note_lost(names.lock(), why);
                self.holds.lost(id, &names, why);
            }
            #[cfg(any(test, feature = "credentials"))]
            Event::LoginRenewed(link) => meter.logins().note_renewed(&self.address(link)),
            Event::Breaker { server, is_open } => {
                let open = is_open.then(|| AtServer::open_breaker(&self.address(server)));
                // What counts is a user's code.
                let _before = std::mem::replace(&mut self.lock().open_breakers[server], open);
            }
            #[cfg(any(test, feature = "grace"))]
            Event::Reigns { server, since, left } => {
                meter.note_primary_changed(&self.address(server), since, left);
            }
            #[cfg(any(test, feature = "credentials"))]
            Event::LoginFailed(link, text) => {
                let why = ServerError::new(&text).to_string();
                meter.logins().note_failed(&self.address(link), why);
            }
        }
    }

    /// How each server stands.
    pub(crate) fn stats_of_servers(&self) -> Vec<ServerStats> {
        let (state, now) = (self.lock(), clock::now());
        let server = |link| ServerStats {
            server: state.machine.address(link).to_owned(),
            breaker: match state.machine.is_left_out_for(link, now) {
                None => BreakerState::Closed,
                Some(Duration::ZERO) => BreakerState::HalfOpen,
                Some(_) => BreakerState::Open,
            },
            connected: state.machine.serves(link),
            #[cfg(feature = "grace")]
            grace: state.machine.grace(link, now).map(|(_, left)| left),
        };
        self.servers.links(&state.machine).into_iter().map(server).collect()
    }

    /// Problems of servers that are used anyway, a line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let state = self.lock();
        let of_link = |link: usize| {
            let unfit = state.machine.warnings(link).iter().map(ToString::to_string);
            let denied = state.machine.denied(link).map(|(right, text)| match right {
                Some(_) => refused(text, right).to_string(),
                None => refusal(&state.machine, None, text).to_string(),
            });
            let address = state.machine.address(link);
            unfit.chain(denied).map(move |warning| format!("{address}: {warning}"))
        };
        let links = self.servers.links(&state.machine);
        let mut lines = Vec::new();
        lines.extend(links.into_iter().flat_map(of_link));
        drop(state);
        #[cfg(feature = "cluster")]
        lines.extend(self.servers.nodes.iter().filter_map(|nodes| nodes.refused()));
        #[cfg(feature = "sentinel")]
        lines.extend(self.servers.service.iter().flat_map(|service| service.refused()));
        #[cfg(any(test, feature = "credentials"))]
        lines.extend(self.meter.logins().warnings());
        lines
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The spans of the leases that are held.
    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    pub(crate) fn address(&self, link: usize) -> String {
        self.lock().machine.address(link).to_owned()
    }
}
