//! What can be sent to a server: a plain command, or a script and what it is called with.

use bytes::{Bytes, BytesMut};
use leasehold_resp::{command_len, encode_command};

use super::script::Script;
use crate::net::connection::Connection;
use crate::net::owed::Owed;
use crate::net::proof::{Expected, STAMP_ROOM};
use crate::net::refusal::ServerError;
use crate::policy::Redelivery;

/// More than any script takes that is called for one lease: up to here nothing is allocated.
pub(super) const PARAMETERS_MAX: usize = 11;
/// What stands before a script's parameters: verb and script.
const PREFIX: usize = 2;
/// What stands behind them: the room for its stamp.
const SUFFIX: usize = 1;

/// A command that can be sent: plain, or a script with the number of its keys, its keys, and its
/// arguments. The stamp, a script's last argument, is added when it is sent.
#[derive(Clone, Copy)]
pub(crate) enum Command<'a> {
    /// One whose answer gives nobody a lock.
    Plain(&'a [&'a [u8]]),
    /// One whose reply has no room for a stamp, and counts only once it is proved.
    Unstamped(&'a [&'a [u8]], Expected),
    Script(&'a Script, &'a [&'a [u8]]),
    /// With the script itself, whether the server knows it or not.
    Whole(&'a Script, &'a [&'a [u8]]),
}

pub(super) fn encoded(words: &[&[u8]]) -> Bytes {
    let mut encoded = BytesMut::with_capacity(command_len(words));
    encode_command(&mut encoded, words);
    encoded.freeze()
}

/// The words of a command.
#[expect(clippy::large_enum_variant, reason = "it stays where it is made, for a moment")]
pub(super) enum Spelled<'a> {
    Given(&'a [&'a [u8]]),
    Few { words: [&'a [u8]; PREFIX + PARAMETERS_MAX + SUFFIX], len: usize },
    Many(Vec<&'a [u8]>),
}

impl<'a> Spelled<'a> {
    fn new(verb: &'a [u8], which: &'a [u8], parameters: &[&'a [u8]]) -> Self {
        let prefix: [&[u8]; PREFIX] = [verb, which];
        let suffix: [&[u8]; SUFFIX] = [STAMP_ROOM];
        if parameters.len() > PARAMETERS_MAX {
            return Self::Many([&prefix, parameters, &suffix].concat());
        }
        let end = PREFIX + parameters.len();
        let mut words: [&[u8]; PREFIX + PARAMETERS_MAX + SUFFIX] =
            [STAMP_ROOM; PREFIX + PARAMETERS_MAX + SUFFIX];
        words[..PREFIX].copy_from_slice(&prefix);
        words[PREFIX..end].copy_from_slice(parameters);
        Self::Few { words, len: end + SUFFIX }
    }

    pub(super) fn words(&self) -> &[&'a [u8]] {
        match self {
            Self::Given(words) => words,
            Self::Few { words, len } => &words[..*len],
            Self::Many(words) => words,
        }
    }
}

impl<'a> Command<'a> {
    /// What a script is called on `connection`, where it can be called by that.
    pub(super) fn digest<'c>(self, connection: &'c Connection) -> Option<&'c Bytes>
    where
        'a: 'c,
    {
        match self {
            Self::Script(script, _) => script.digest(connection),
            Self::Plain(_) | Self::Unstamped(..) | Self::Whole(..) => None,
        }
    }

    /// What its reply can be.
    pub(super) fn expected(self) -> Expected {
        match self {
            Self::Plain(_) => Expected::Anything,
            Self::Unstamped(_, expected) => expected,
            Self::Script(..) | Self::Whole(..) => Expected::Stamp,
        }
    }

    /// The command's words; a script by its digest, where there is one.
    pub(super) fn spell<'c>(self, digest: Option<&'c Bytes>) -> Spelled<'c>
    where
        'a: 'c,
    {
        match (self, digest) {
            (Self::Script(_, parameters), Some(digest)) => {
                Spelled::new(b"EVALSHA", digest, parameters)
            }
            _ => self.spell_whole(),
        }
    }

    /// The command's words, which no server can fail to know.
    pub(super) fn spell_whole(self) -> Spelled<'a> {
        match self {
            Self::Plain(words) | Self::Unstamped(words, _) => Spelled::Given(words),
            Self::Script(script, parameters) | Self::Whole(script, parameters) => {
                Spelled::new(b"EVAL", script.text().as_bytes(), parameters)
            }
        }
    }

    /// An error reply to this command.
    pub(crate) fn refusal(self, text: &[u8]) -> ServerError {
        let error = ServerError::new(text);
        match self {
            Self::Plain(words) | Self::Unstamped(words, _) => {
                error.about("", words.get(1..2).unwrap_or_default())
            }
            Self::Script(script, parameters) | Self::Whole(script, parameters) => {
                let count = parameters.first().and_then(|count| std::str::from_utf8(count).ok());
                let keys = 1..1 + count.and_then(|count| count.parse().ok()).unwrap_or(0);
                error.about(script.text(), parameters.get(keys).unwrap_or_default())
            }
        }
    }

    /// The same, which no server can fail to know.
    pub(crate) fn whole(self) -> Self {
        match self {
            Self::Script(script, parameters) => Self::Whole(script, parameters),
            other => other,
        }
    }

    /// The command as it is owed: a script by its digest on `connection`, and with the script itself
    /// where there is none.
    pub(crate) fn owed(
        self,
        connection: Option<&Connection>,
        slot: u16,
        again: Redelivery,
    ) -> Owed {
        let digest = connection.and_then(|connection| self.digest(connection));
        let script = match self {
            Self::Script(script, _) => digest.map(|_| script.shared_text()),
            _ => None,
        };
        let command = encoded(self.spell(digest).words());
        Owed { command, script, expected: self.expected(), slot, again }
    }
}
