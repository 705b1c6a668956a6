//! Credentials that expire: the connection logs in again before that.
//!
//! A login that fails is tried again after a pause. Meanwhile the connection stays, because a server keeps the
//! old login if it refuses the new one; the server may end the connection at any time. The next connection gets new
//! credentials anyway.

use std::time::Duration;

use leasehold_resp::Frame;

use super::answer::Place;
use super::core::{Effect, Event, Machine};
use super::link::Link;
use super::session::{Login, Renewal};
use super::talk::To;
use crate::policy::{Moment, RELOGIN, relogin_at};

impl Link {
    /// The connection is logged in, for this time.
    pub(super) fn is_logged_in(&mut self, lasts: Option<(Moment, Duration)>, random: u64) {
        self.talk.renewal = lasts.map(|(from, valid_for)| {
            let at = Some(relogin_at(from, valid_for, random));
            Box::new(Renewal { at, lasts, failed: 0 })
        });
    }
}

impl Machine {
    /// The driver has the credentials that it was told to get; none if it got none.
    pub(crate) fn log_in(&mut self, server: usize, login: Option<&Login>, now: Moment) {
        let link = &mut self.links[server];
        if !link.is_ready() || link.talk.renewal.is_none() {
            return;
        }
        let (Some(login), Some(auth)) = (login, login.and_then(Login::auth)) else {
            return self.logged_in(server, None, now);
        };
        link.talk.secrets.hide(login.password.as_deref().unwrap_or_default());
        link.talk.write(&auth, Place::Any, To::Login, now);
        if let Some(renewal) = &mut link.talk.renewal {
            renewal.lasts = login.lasts;
        }
    }

    /// The server's proved answer to a login; none if no login was sent.
    pub(super) fn logged_in(&mut self, server: usize, reply: Option<&Frame>, now: Moment) {
        let random = (self.settings.random)();
        let link = &mut self.links[server];
        let Some(renewal) = &mut link.talk.renewal else { return };
        if let Some(Frame::Simple(_)) = reply {
            self.effects.push(Effect::Tell(Event::LoginRenewed(server)));
            let lasts = renewal.lasts;
            link.is_logged_in(lasts, random);
        } else {
            if let Some(text) = reply.and_then(Frame::error) {
                let event = Event::LoginFailed(server, text.clone());
                self.effects.push(Effect::Tell(event));
            }
            renewal.at = Some(now.after(RELOGIN.delay(renewal.failed, random)));
            renewal.failed = renewal.failed.saturating_add(1);
        }
        self.note(now);
    }

    /// Asks for credentials.
    pub(super) fn renew_login(&mut self, server: usize, now: Moment) {
        let Some(renewal) = &mut self.links[server].talk.renewal else { return };
        if renewal.at.is_some_and(|at| at <= now) {
            renewal.at = None;
            self.effects.push(Effect::Login(server));
        }
    }
}
