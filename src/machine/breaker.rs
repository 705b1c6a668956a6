//! Of several servers, one that does not answer is left out of attempts for a while: it costs each of them the whole
//! timeout otherwise. What is held is renewed and given back there anyway.

use std::time::Duration;

use super::core::{Effect, Machine};
use super::counts::Event;
use super::link::Link;
use crate::policy::{Failing, Moment};

impl Link {
    /// Why no vote is asked of it in an attempt.
    pub(super) fn left_out(&mut self, now: Moment, random: fn() -> u64) -> Option<Failing> {
        // Randomness may be a system call.
        let is_closed = self.breaker.is_closed();
        let is_admitted = is_closed || self.breaker.admit(now, random());
        (!is_admitted).then_some(Failing::Otherwise)
    }
}

impl Machine {
    /// For how long no attempt asks a server; zero where the next one does to find out, none where all do.
    pub(crate) fn is_left_out_for(&self, server: usize, now: Moment) -> Option<Duration> {
        self.links[server].breaker.opens_in(now)
    }

    /// A server has answered an attempt, or met a new connection, whatever it said.
    pub(super) fn note_answer(&mut self, server: usize) {
        let breaker = &mut self.links[server].breaker;
        let was_closed = breaker.is_closed();
        breaker.note_answer();
        if !was_closed {
            self.effects.push(Effect::Tell(Event::Breaker { server, is_open: false }));
        }
    }

    /// These servers have not answered an attempt, or could not be asked.
    pub(super) fn note_failures(&mut self, servers: u64, now: Moment) {
        if self.is_alone() || servers == 0 {
            return;
        }
        for server in (0..self.links.len()).filter(|server| servers & 1 << server != 0) {
            let breaker = &mut self.links[server].breaker;
            let was_closed = breaker.is_closed();
            breaker.note_failure(now, (self.settings.random)());
            if was_closed && !breaker.is_closed() {
                self.effects.push(Effect::Tell(Event::Breaker { server, is_open: true }));
            }
        }
    }
}

#[cfg(test)]
mod tests;
