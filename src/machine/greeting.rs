//! The handshake of a connection: one write, so that a connection costs one round trip after the dial.
//!
//! `HELLO 3` with AUTH and SETNAME, CLIENT SETINFO, INFO, in a Cluster CLUSTER SLOTS, SELECT, a seal, SCRIPT LOAD of every
//! script, and another seal.
//! Servers and proxies without HELLO answer with various errors, or close the connection. So after any refusal of HELLO
//! the handshake is repeated once in RESP2, by a second write or on a second connection. Only an authentication error, and
//! an error that means "not now", end the handshake.
//!
//! No reply is believed before it is proved, and the reply to SCRIPT LOAD is a digest that is known here. So a lost
//! or doubled reply ends the connection, and is never taken for the answer to another step.
//!
//! A server may answer HELLO and delay the scripts: a master that was demoted, and any server under `CLIENT PAUSE ..
//! WRITE`, treats SCRIPT LOAD as a write in Redis 6.2. So the scripts have a deadline of their own
//! ([`SCRIPTS_WITHIN`]), from the reply to the first seal on.
//!
//! A handshake is a state machine of its own ([`Handshake`]), which the lock's machine gets once it is over: so a driver
//! can run several at once for the addresses of one name.
//!
//! The lock's machine then judges the server: which run it is, and whether that run may vote
//! (safety rules 9, 10 and 18). An unfit server gets no connection, and is dialled again like one that cannot be reached: by
//! then it may be fit, or its name may lead to another server.

use std::time::Duration;

use bytes::BytesMut;
use leasehold_resp::{Decimal, Frame};

use super::answer::Place;
use super::command::Script;
use super::core::{Effect, Machine, Settings};
use super::ids::LeaseId;
use super::lease::{Has, Lease};
use super::link::Link;
#[cfg(any(test, feature = "cluster"))]
use super::routing::Nodes;
use super::session::{CLIENT_NAME, Fault, Login, Sighting, Step};
use super::talk::{Reply, Talk, To};
use crate::policy::fitness::{Facts, SECTIONS, Standing, Unfit, is_of_sentinel, run_id, warnings};
#[cfg(all(feature = "credentials", feature = "sentinel"))]
use crate::policy::relogin_at;
use crate::policy::{Backoff, Code, Moment};

/// Shown by CLIENT LIST since Redis 7.2.
const LIBRARY: [[&[u8]; 2]; 2] =
    [[b"LIB-NAME", b"leasehold"], [b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]];
/// How long a server may take for all scripts after the first seal: it has read them by then,
/// and compiles each in less than a millisecond, so a server that takes longer delays them. Also at most this part
/// of the time to connect, so that time is left to ask another server of the same name.
const SCRIPTS_WITHIN: Duration = Duration::from_secs(1);
const SCRIPTS_SHARE: u32 = 2;
/// The section of INFO with the run of a server: without it a name that leads to another server goes unnoticed.
const RUN: &str = "server";
/// After this time, with jitter, a server that grants no leases is dialled again, so that a fleet does not come in step.
const MEET_AGAIN: Backoff =
    Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(2) };

impl Settings {
    /// The sections of INFO, each with whether a connection needs it.
    fn sections(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        let needed: &[&str] = if self.rules.is_some() { &SECTIONS } else { &[] };
        let wished = self.info_if_allowed.iter().map(|section| (*section, false));
        needed.iter().map(|section| (*section, true)).chain(wished)
    }

    fn loaded(&self) -> impl Iterator<Item = Script> + use<> {
        #[cfg(any(test, feature = "scriptless"))]
        let count = if self.scriptless.is_some() { 0 } else { usize::MAX };
        #[cfg(not(any(test, feature = "scriptless")))]
        let count = usize::MAX;
        self.scripts.loaded().into_iter().take(count)
    }
}

/// See the module's documentation. The driver writes [`Handshake::output`] and calls [`Handshake::received`] until that
/// says that it is over, which has to be before [`Handshake::ends_at`].
pub(crate) struct Handshake {
    pub(super) talk: Talk,
    pub(super) login: Login,
    /// The sections of INFO, one after the other.
    pub(super) info: String,
    settings: Settings,
    /// The protocol of the last write.
    is_resp3: bool,
    /// A step was answered. The clock may not have moved since the write.
    is_greeted: bool,
    is_replica: bool,
    #[cfg(any(test, feature = "cluster"))]
    pub(super) nodes: Nodes,
    /// The replies before the scripts are proved.
    is_sealed: bool,
    /// Only the login and the database, without proofs.
    #[cfg(any(test, feature = "_interviews"))]
    is_bare: bool,
    began_at: Moment,
    ends_at: Moment,
}

impl Handshake {
    pub(crate) fn new(settings: Settings, login: Login, ends_at: Moment, now: Moment) -> Self {
        let mut handshake = Self::silent(settings, login, ends_at, now);
        handshake.say_all(now);
        handshake
    }

    #[inline(never)]
    fn silent(settings: Settings, login: Login, ends_at: Moment, now: Moment) -> Self {
        let mut talk = Talk::of_handshake((settings.random)(), settings.limits);
        if let Some(password) = &login.password {
            talk.secrets.hide(password);
        }
        Self {
            talk,
            login,
            info: String::new(),
            settings,
            is_resp3: true,
            is_greeted: false,
            is_replica: false,
            #[cfg(any(test, feature = "cluster"))]
            nodes: None,
            is_sealed: false,
            #[cfg(any(test, feature = "_interviews"))]
            is_bare: false,
            began_at: now,
            ends_at,
        }
    }

    /// The bytes to be sent. The driver takes them out.
    pub(crate) fn output(&mut self) -> &mut BytesMut {
        &mut self.talk.out
    }

    /// When it is given up, if it is not over by then.
    pub(crate) fn ends_at(&self) -> Moment {
        self.ends_at
    }

    /// Why it is given up at that time.
    pub(crate) fn late(&self) -> Fault {
        if self.is_sealed { Fault::HeldUp } else { Fault::Late }
    }

    /// The error of a server that has closed the connection before a login: it sends one to a client for which it has no
    /// room, or which it does not admit.
    pub(crate) fn farewell(&self) -> Option<Fault> {
        let text = self.talk.only_error()?.clone();
        Some(Fault::Refused { step: Step::Hello, text })
    }

    /// The connection has ended. Returns whether to open another: a server that does not know HELLO may have closed this
    /// one, and gets RESP2 on the next.
    pub(crate) fn begins_again(&mut self, now: Moment) -> bool {
        let mut came = Vec::new();
        let is_of_hello = match self.farewell() {
            Some(Fault::Refused { text, .. }) => Code::of_bytes(&text) == Code::Unsupported,
            _ => {
                self.talk.believe(&mut came);
                came.is_empty()
            }
        };
        if !self.is_resp3 || self.is_greeted || !is_of_hello {
            return false;
        }
        *self = Self {
            is_resp3: false,
            #[cfg(any(test, feature = "_interviews"))]
            is_bare: self.is_bare,
            ..Self::silent(self.settings, self.login.clone(), self.ends_at, now)
        };
        self.say_all(now);
        true
    }

    /// Whether the server has said that it is a replica, which needs HELLO.
    pub(crate) fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// Takes received bytes, and leaves a partial reply in them. Returns whether all steps are answered.
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    pub(crate) fn received(&mut self, bytes: &mut BytesMut, now: Moment) -> Result<bool, Fault> {
        let mut proved = Vec::new();
        let heard = self.talk.hear(bytes, &mut proved, now);
        if self.is_bare() {
            self.talk.believe(&mut proved);
        }
        let mut is_over = false;
        for Reply { to, frame, .. } in proved {
            let To::Handshake { step, is_resp3 } = to else { continue };
            // If the server did not understand a write in RESP3, its other replies do not count.
            if is_resp3 == self.is_resp3 {
                self.is_answered(step, &frame, now)?;
                is_over = step == Step::Last;
            }
        }
        is_over |= self.is_bare() && self.talk.in_flight() == 0;
        heard.map(|()| is_over)
    }

    fn is_bare(&self) -> bool {
        #[cfg(any(test, feature = "_interviews"))]
        return self.is_bare;
        #[cfg(not(any(test, feature = "_interviews")))]
        false
    }

    /// Writes all steps.
    fn say_all(&mut self, now: Moment) {
        let is_bare = self.is_bare();
        let Self { talk, login, settings, is_resp3, .. } = self;
        let is_resp3 = *is_resp3;
        let to = |step| To::Handshake { step, is_resp3 };
        let mut say = |step, words: &[&[u8]]| talk.write(words, Place::Any, to(step), now);
        let auth = login.auth();
        if is_resp3 {
            say(Step::Hello, &login.hello());
        } else {
            if let Some(auth) = &auth {
                say(Step::Auth, auth);
            }
            say(Step::SetName, &[b"CLIENT", b"SETNAME", CLIENT_NAME]);
        }
        if !is_bare {
            for [name, value] in LIBRARY {
                say(Step::SetLibrary, &[b"CLIENT", b"SETINFO", name, value]);
            }
        }
        let sections = settings.sections().filter(|_| !is_bare);
        for (section, _) in sections {
            say(Step::Info(section), &[b"INFO", section.as_bytes()]);
        }
        #[cfg(any(test, feature = "cluster"))]
        if !is_bare && settings.nodes_of.is_some() {
            say(Step::Slots, &[b"CLUSTER", b"SLOTS"]);
        }
        if login.database != 0 {
            say(Step::Select, &[b"SELECT", &Decimal::new(login.database.into())]);
        }
        if is_bare {
            return;
        }
        talk.echo(to(Step::Seal), now);
        for script in settings.loaded() {
            let words: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.text.as_bytes()];
            talk.write(&words, Place::Digest(script.digest), to(Step::Load), now);
        }
        talk.echo(to(Step::Last), now);
    }

    /// One step was answered, and the answer is proved.
    fn is_answered(&mut self, step: Step, frame: &Frame, now: Moment) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.is_greeted, true) {
            self.talk.greeted_in = now.since(self.began_at);
        }
        if let Some(text) = frame.error() {
            match (step, Code::of_bytes(text)) {
                (Step::Hello, code) if code.may_be_unknown() => {
                    self.is_resp3 = false;
                    self.say_all(now);
                }
                // Only for people that read CLIENT LIST: an old server, or a right that the user lacks.
                (Step::SetName | Step::SetLibrary, _) => {}
                #[cfg(any(test, feature = "cluster"))]
                (Step::Slots, code @ (Code::Permission | Code::Unsupported | Code::Other)) => {
                    self.nodes = (code == Code::Other).then(Vec::new);
                }
                // The last seal, or its replacement, has proved the same.
                (Step::Seal | Step::Last, _) => {}
                // The first call sends the script itself.
                (Step::Load, code) if code.may_be_unknown() && code != Code::ReadOnly => {}
                (Step::Load, Code::Permission) => {
                    self.talk.denied = Some((Some(step), text.clone()));
                }
                (Step::Info(RUN), Code::Permission) if !is_needed(&self.settings, RUN) => {
                    self.talk.denied = Some((Some(step), text.clone()));
                }
                // Only for people, or an old server.
                (Step::Info(section), _) if !is_needed(&self.settings, section) => {}
                _ => return Err(Fault::Refused { step, text: text.clone() }),
            }
            return Ok(());
        }
        if !self.is_bare() && is_sentinels(frame) {
            return Err(Fault::Unfit(Unfit::Sentinel));
        }
        match (step, frame.value()) {
            (Step::Hello, hello @ (Frame::Map(_) | Frame::Array(_))) => {
                // The first servers with HELLO answer it in RESP2.
                self.talk.is_resp3 = matches!(hello, Frame::Map(_));
                let field = |name| hello.field(name).and_then(Frame::as_bytes);
                self.is_replica = field("role").is_some_and(|it| it == "replica" || it == "slave");
            }
            (Step::Load | Step::Last, _) => {}
            #[cfg(any(test, feature = "cluster"))]
            (Step::Slots, slots) => {
                self.nodes = self.settings.nodes_of.and_then(|nodes_of| nodes_of(slots));
            }
            (Step::Auth | Step::SetName | Step::SetLibrary | Step::Select, Frame::Simple(_)) => {}
            (Step::Info(_), Frame::Bulk(text) | Frame::Verbatim { text, .. }) => {
                self.info.push_str(&String::from_utf8_lossy(text));
            }
            (Step::Seal, _) => {
                let within = scripts_within(self.settings.connect_timeout);
                (self.is_sealed, self.ends_at) = (true, self.ends_at.min(now.after(within)));
            }
            _ => return Err(Fault::Unexpected(step)),
        }
        Ok(())
    }
}

/// A separate connection for commands that grant nothing. So nothing has to be proved, and a user without the right to a
/// seal may ask.
#[cfg(any(test, feature = "_interviews"))]
impl Handshake {
    pub(crate) fn bare(settings: Settings, login: Login, ends_at: Moment, now: Moment) -> Self {
        let mut handshake = Self::silent(settings, login, ends_at, now);
        handshake.is_bare = true;
        handshake.say_all(now);
        handshake
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.talk.is_resp3
    }

    #[cfg(feature = "examine")]
    pub(crate) fn user(&self) -> Option<&str> {
        self.login.user.as_deref()
    }

    /// When expiring credentials are to be replaced.
    #[cfg(all(feature = "credentials", feature = "sentinel"))]
    pub(crate) fn ends_login_at(&self) -> Option<Moment> {
        let lasts = self.login.lasts;
        lasts.map(|(from, valid_for)| relogin_at(from, valid_for, (self.settings.random)()))
    }

    /// The round trip of its first reply.
    pub(crate) fn greeted_in(&self) -> Duration {
        self.talk.greeted_in
    }

    /// Sends a command after the handshake.
    pub(crate) fn ask(&mut self, words: &[&[u8]], now: Moment) {
        self.talk.write(words, Place::Any, To::Nobody, now);
    }

    /// The replies since, in order.
    ///
    /// # Errors
    ///
    /// Why the connection has to end.
    pub(crate) fn heard(&mut self, bytes: &mut BytesMut, now: Moment) -> Result<Vec<Frame>, Fault> {
        let mut replies = Vec::new();
        self.talk.hear(bytes, &mut replies, now)?;
        self.talk.believe(&mut replies);
        Ok(replies.into_iter().map(|reply| reply.frame).collect())
    }
}

impl Machine {
    /// Problems of a server that are no reason to refuse it.
    pub(crate) fn warnings(&self, server: usize) -> &[Unfit] {
        &self.links[server].warnings
    }

    /// A command without a caller that a server has refused for want of a right; and that right, if known.
    pub(crate) fn denied(&self, server: usize) -> Option<(Option<String>, &[u8])> {
        let (step, text) = self.links[server].talk.denied.as_ref()?;
        Some((step.and_then(Step::right), text))
    }

    /// Judges a server by its INFO; returns whether it is another run than the one before.
    ///
    /// # Errors
    ///
    /// Why it may not vote on this connection.
    pub(super) fn meet(&mut self, server: usize, info: &str, now: Moment) -> Result<bool, Fault> {
        let link = &mut self.links[server];
        let mut is_another = false;
        if let Some(met) = run_id(info) {
            let (sighting, other) = Sighting::of(met, link.sighting.take(), now);
            (link.sighting, is_another) = (Some(sighting), other);
        }
        link.votes_at = link.settles_at().map_or(now, |at| at.max(now));
        link.warnings = warnings(info);
        let Some(rules) = self.settings.rules else { return Ok(is_another) };
        let facts = Facts::parse(info).map_err(Fault::Unfit)?;
        if let Some(other) = self.same_as(server, &facts.run_id, now) {
            return Err(Fault::SameAs(other));
        }
        let link = &mut self.links[server];
        let (first_seen, not_before) =
            link.sighting.as_ref().map_or((now, None), |seen| (seen.first_seen, seen.not_before));
        match facts.judge(rules, first_seen, not_before, now) {
            Standing::Fit => {}
            Standing::Quarantined { until } => link.votes_at = link.votes_at.max(until),
            Standing::Unfit(unfit) => return Err(Fault::Unfit(unfit)),
        }
        Ok(is_another)
    }

    /// Another link that leads to the same run, whatever its address; or that led there so lately that its votes may count.
    fn same_as(&self, server: usize, met: &str, now: Moment) -> Option<usize> {
        // A node under two names, of a map and of a user, is one server, and votes once.
        if self.is_by_slots() {
            return None;
        }
        let may_count = |left_at: Moment| now < left_at.after(self.settings.timeout);
        let is_it = |link: &Link| {
            let seen = link.sighting.as_ref().filter(|seen| seen.run_id == met);
            seen.is_some_and(|seen| link.is_ready() || seen.left_at.is_some_and(may_count))
        };
        (0..self.links.len()).find(|at| *at != server && is_it(&self.links[*at]))
    }

    /// The server says that it is a replica. It is dialled again after some time: by then it may have been promoted, or its
    /// name may lead to another server.
    pub(super) fn leave_later(&mut self, server: usize, now: Moment) {
        let leave_at = now.after(MEET_AGAIN.delay(0, (self.settings.random)()));
        let link = &mut self.links[server];
        if link.talk.leave_at.is_none() {
            link.talk.leave_at = Some(leave_at);
            self.effects.push(Effect::Demoted(server));
        }
        self.note(leave_at);
    }

    /// Leases of the former run are looked for at this one at once, and lost if they are not there.
    pub(super) fn look_for_leases(&mut self, server: usize, now: Moment) {
        let is_there = |_: LeaseId, lease: &Lease| {
            let has_key = |at: usize| lease.replicas[at].has == Has::Key;
            lease.is_held() && lease.is_renewed && lease.at_link(server).any(has_key)
        };
        self.batches.due.extend(self.all(&is_there));
        self.renew_all(now);
    }
}

/// How long a server may take for the scripts, by the time for dial and handshake.
pub(crate) fn scripts_within(connect_timeout: Duration) -> Duration {
    SCRIPTS_WITHIN.min(connect_timeout / SCRIPTS_SHARE)
}

/// Whether a reply to HELLO or to INFO is a Sentinel's.
fn is_sentinels(frame: &Frame) -> bool {
    let mode = frame.field("mode").and_then(Frame::as_bytes);
    let info = frame.as_bytes().map(|text| String::from_utf8_lossy(text));
    mode.is_some_and(|mode| mode == "sentinel") || info.is_some_and(|info| is_of_sentinel(&info))
}

fn is_needed(settings: &Settings, section: &str) -> bool {
    settings.sections().any(|it| it == (section, true))
}

#[cfg(test)]
mod tests;
