//! Recent releases, for a server that replaces another: a promoted replica may lack the master's last writes, and keep
//! released locks until their TTL.

use std::collections::VecDeque;
use std::time::Duration;

use crate::machine::{Command, Memory};
use crate::policy::Moment;

/// How long a release is remembered: a successor that has served for longer has been followed by then.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Maximum releases that are remembered: the oldest are forgotten.
const REMEMBERED_MAX: usize = 2048;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Releases(VecDeque<(Moment, Command)>);

impl Memory for Releases {
    fn note(&mut self, release: &Command, now: Moment) {
        let is_old = |(at, _): &(Moment, Command)| now.since(*at) > REMEMBERED_FOR;
        while self.0.len() >= REMEMBERED_MAX || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back((now, release.clone()));
    }

    fn tell_again(&mut self, now: Moment, tell: &mut dyn FnMut(&Command)) {
        let is_recent = |(at, _): &(Moment, Command)| now.since(*at) <= REMEMBERED_FOR;
        while let Some(noted) = self.0.pop_front() {
            if is_recent(&noted) {
                tell(&noted.1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
