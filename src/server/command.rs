//! What can be sent to a server: a plain command, or a script and what it is called with.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_resp::{parts_len, store_parts};

use super::script::Script;
use crate::net::connection::Connection;
use crate::net::owed::Owed;
use crate::net::proof::{Expected, STAMP_ROOM};
use crate::net::refusal::ServerError;
use crate::policy::{Redelivery, number};

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

/// The words of a command, in parts.
pub(super) struct Spelled<'a> {
    /// What calls a script: the verb, and which.
    call: Option<[&'a [u8]; 2]>,
    /// What it is called with; all words of another command.
    parameters: &'a [&'a [u8]],
}

impl<'a> Spelled<'a> {
    pub(super) fn parts(&self) -> [&[&'a [u8]]; 3] {
        match &self.call {
            Some(call) => [call, self.parameters, &[STAMP_ROOM]],
            None => [&[], self.parameters, &[]],
        }
    }

    pub(super) fn words(&self) -> Vec<&'a [u8]> {
        self.parts().concat()
    }

    pub(super) fn encoded(&self) -> Bytes {
        let parts = self.parts();
        let mut encoded = vec![0; parts_len(&parts)];
        let stored = store_parts(&mut encoded, &parts);
        debug_assert_eq!(stored, Some(encoded.len()));
        encoded.into()
    }
}

impl<'a> Command<'a> {
    /// What its reply can be.
    pub(super) fn expected(self) -> Expected {
        match self {
            Self::Plain(_) => Expected::Anything,
            Self::Unstamped(_, expected) => expected,
            Self::Script(..) | Self::Whole(..) => Expected::Stamp,
        }
    }

    /// The command's words; a script by its digest, where it has one.
    pub(super) fn spell(self) -> Spelled<'a> {
        match self {
            Self::Script(script, parameters) => match script.digest() {
                Some(digest) => Spelled { call: Some([b"EVALSHA", digest]), parameters },
                None => self.spell_whole(),
            },
            _ => self.spell_whole(),
        }
    }

    /// The command's words, which no server can fail to know.
    pub(super) fn spell_whole(self) -> Spelled<'a> {
        match self {
            Self::Plain(parameters) | Self::Unstamped(parameters, _) => {
                Spelled { call: None, parameters }
            }
            Self::Script(script, parameters) | Self::Whole(script, parameters) => {
                Spelled { call: Some([b"EVAL", script.text().as_bytes()]), parameters }
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
                let count = parameters.first().and_then(|count| number(count));
                let keys = 1..1 + count.unwrap_or(0);
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

    /// The command with the script itself, where `connection` is to bring that along.
    pub(super) fn brought_by(self, connection: &Connection) -> Option<Self> {
        let Self::Script(script, _) = self else { return None };
        let is_new = !connection.has_brought(script.number()?);
        is_new.then(|| self.whole())
    }

    /// Notes that it was sent on `connection`.
    pub(super) fn note_sent(self, connection: &Connection) {
        if let Self::Script(script, _) | Self::Whole(script, _) = self {
            script.number().into_iter().for_each(|number| connection.note_brought(number));
        }
    }

    /// The command as it is owed: a script by its digest if it goes out on the connection that it `began` on,
    /// and else with the script itself.
    pub(crate) fn owed(self, began: bool, slot: u16, again: Redelivery, counted: Arc<()>) -> Owed {
        let command = if began { self } else { self.whole() };
        let script = match command {
            Self::Script(script, _) => script.digest().map(|_| script.text()),
            _ => None,
        };
        let is_by_key = match self {
            Self::Script(script, _) | Self::Whole(script, _) => script.is_by_key(),
            _ => false,
        };
        let command = command.spell().encoded();
        Owed { command, script, is_by_key, expected: self.expected(), slot, again, counted }
    }
}
