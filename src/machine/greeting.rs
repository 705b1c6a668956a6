//! What is said on a new connection before the first question: one write, so that a connection costs one round trip
//! after the dial.
//!
//! `HELLO 3` with AUTH and SETNAME, CLIENT SETINFO, SELECT, INFO, a seal, SCRIPT LOAD of every script, and another seal.
//! Only where HELLO itself is unknown, or its version is, RESP2 is spoken instead, with a second write. Any other refusal
//! of HELLO is what it says, an authentication error above all.
//!
//! No reply is believed before it is proved, and the reply to SCRIPT LOAD is a digest that is known here. So a reply that
//! is lost or doubled ends the connection, and is never taken for the answer to another step.
//!
//! A server may answer HELLO and hold the scripts up: the master that Redis 6.2 has demoted, and any server of that
//! version under `CLIENT PAUSE .. WRITE`, takes SCRIPT LOAD for a write. So the scripts have a deadline of their own
//! ([`SCRIPTS_WITHIN`]), from when the first seal has come.

use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::core::{Machine, Settings};
use super::link::{Fault, Link, Place, State, To};
use super::session::{Greeting, Step};
use crate::policy::fitness::SECTIONS;
use crate::policy::{Code, Moment};

/// The name that CLIENT LIST shows.
const CLIENT_NAME: &[u8] = b"leasehold";
/// What CLIENT LIST shows of us since Redis 7.2.
const LIBRARY: [[&[u8]; 2]; 2] =
    [[b"LIB-NAME", b"leasehold"], [b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]];
/// How long a server that has answered what comes before the scripts may take for all of them: it reads them with that,
/// and compiles each in less than a millisecond. What takes longer is not slow, but held up; and no more than this part
/// of the time to connect, so that there is time left to ask another server of the same name.
const SCRIPTS_WITHIN: Duration = Duration::from_secs(1);
const SCRIPTS_SHARE: u32 = 2;

impl Settings {
    /// The sections of INFO, each with whether there is no connection without it.
    fn sections(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        let needed: &[&str] = if self.rules.is_some() { &SECTIONS } else { &[] };
        let wished = self.info_if_allowed.iter().map(|section| (*section, false));
        needed.iter().map(|section| (*section, true)).chain(wished)
    }
}

impl Link {
    /// Writes all steps.
    pub(super) fn greet(&mut self, settings: &Settings, now: Moment) {
        let Some(greeting) = self.greeting.take() else { return };
        let Greeting { login, is_resp3, .. } = &*greeting;
        let is_resp3 = *is_resp3;
        let to = |step| To::Handshake { step, is_resp3 };
        let mut say = |step, words: &[&[u8]]| self.write(words, Place::Any, to(step), now);
        let auth = login.auth();
        if is_resp3 {
            let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
            if let Some(password) = login.password.as_deref() {
                let user = login.user.as_deref().unwrap_or("default");
                hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
            }
            hello.extend([&b"SETNAME"[..], CLIENT_NAME]);
            say(Step::Hello, &hello);
        } else {
            if let Some(auth) = &auth {
                say(Step::Auth, auth);
            }
            say(Step::SetName, &[b"CLIENT", b"SETNAME", CLIENT_NAME]);
        }
        for [name, value] in LIBRARY {
            say(Step::SetLibrary, &[b"CLIENT", b"SETINFO", name, value]);
        }
        if login.database != 0 {
            say(Step::Select, &[b"SELECT", &Decimal::new(login.database.into())]);
        }
        for (number, (section, _)) in (0..).zip(settings.sections()) {
            say(Step::Info(number), &[b"INFO", section.as_bytes()]);
        }
        self.echo(to(Step::Seal), now);
        for script in settings.scripts.all() {
            let words: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.text.as_bytes()];
            self.write(&words, Place::Digest(script.digest), to(Step::Load), now);
        }
        self.echo(to(Step::Last), now);
        self.greeting = Some(greeting);
    }
}

impl Machine {
    /// One step was answered, and the answer is proved.
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    pub(super) fn greeted(
        &mut self,
        server: usize,
        (step, is_resp3): (Step, bool),
        frame: &Frame,
        now: Moment,
    ) -> Result<(), Fault> {
        let Self { links, settings, .. } = self;
        let link = &mut links[server];
        // Of a write in RESP3 that the server did not understand, nothing counts but that.
        let greeting = link.greeting.as_deref_mut().filter(|it| it.is_resp3 == is_resp3);
        let Some(greeting) = greeting else { return Ok(()) };
        if let Some(text) = frame.error() {
            return match (step, Code::of(&String::from_utf8_lossy(text))) {
                (Step::Hello, Code::Unsupported) => {
                    greeting.is_resp3 = false;
                    link.greet(settings, now);
                    Ok(())
                }
                // A courtesy to the readers of CLIENT LIST: an old server, or a right that the user lacks.
                (Step::SetName | Step::SetLibrary, _) => Ok(()),
                // What it was to prove, the last seal has proved.
                (Step::Seal, _) => Ok(()),
                // The first call sends the script itself.
                (Step::Load, Code::Permission | Code::Unsupported) => Ok(()),
                (Step::Info(number), _) if !is_needed(settings, number) => Ok(()),
                _ => Err(Fault::Refused { step, text: text.clone() }),
            };
        }
        match (step, frame.value()) {
            // The first servers with HELLO answer it in RESP2.
            (Step::Hello, Frame::Array(_)) | (Step::Load, _) => {}
            (Step::Hello, Frame::Map(_)) => link.is_resp3 = true,
            (Step::Auth | Step::SetName | Step::SetLibrary | Step::Select, Frame::Simple(_)) => {}
            (Step::Info(_), Frame::Bulk(text) | Frame::Verbatim { text, .. }) => {
                greeting.info.push_str(&String::from_utf8_lossy(text));
            }
            (Step::Seal, _) => {
                let State::Greeting { until, .. } = link.state else { return Ok(()) };
                let until = until.min(now.after(scripts_within(settings.connect_timeout)));
                link.state = State::Greeting { until, is_sealed: true };
                self.note(until);
            }
            (Step::Last, _) => return self.is_ready(server, now),
            _ => return Err(Fault::Unexpected(step)),
        }
        Ok(())
    }
}

/// How long a server may take for the scripts, where dial and handshake may take this time.
pub(crate) fn scripts_within(connect_timeout: Duration) -> Duration {
    SCRIPTS_WITHIN.min(connect_timeout / SCRIPTS_SHARE)
}

fn is_needed(settings: &Settings, number: u8) -> bool {
    settings.sections().nth(number.into()).is_some_and(|(_, is_needed)| is_needed)
}

#[cfg(test)]
mod tests;
