//! A command as one lease says it to one server or several: it is spelled once, and each server's copy differs by the
//! stamp that goes behind it.

use bytes::BytesMut;
use leasehold_resp::{Decimal, encode_parts};

use super::script::{Form, Script};
use crate::policy::Moment;
use crate::policy::parts::parted;

const DIGEST_LENGTH: usize = 40;
/// The first words of nearly all calls: the digest is to be put in, and the count of keys to be added.
const HEAD: [u8; 67] =
    *b"$7\r\nEVALSHA\r\n$40\r\n0000000000000000000000000000000000000000\r\n$1\r\n0\r\n";
const DIGEST_AT: usize = 18;
const COUNT_AT: usize = DIGEST_AT + DIGEST_LENGTH + 6;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Command {
    pub(super) bytes: BytesMut,
    /// A script gives back the stamp that goes behind its words.
    pub(super) is_stamped: bool,
    pub(super) form: Form,
    /// There is no other server.
    pub(crate) is_alone: bool,
    #[cfg(any(test, feature = "cluster"))]
    pub(super) slot_of: Option<fn(&[u8]) -> u16>,
}

/// What servers of a link were told lately.
pub(crate) trait Memory: Send {
    /// A release is written.
    fn note(&mut self, release: &Command, now: Moment);
    /// A server is met that may not have heard of all: it is told by `tell`.
    fn tell_again(&mut self, now: Moment, tell: &mut dyn FnMut(&Command));
}

impl Command {
    pub(crate) fn new(is_alone: bool) -> Self {
        Self {
            bytes: BytesMut::new(),
            is_stamped: false,
            form: Form::Digest,
            is_alone,
            #[cfg(any(test, feature = "cluster"))]
            slot_of: None,
        }
    }

    /// A script with its keys and words.
    pub(crate) fn call(&mut self, script: &Script, keys: &[&[u8]], words: &[&[u8]]) {
        self.is_stamped = true;
        script.spell(&mut self.bytes, self.form, keys, words);
    }

    /// The same of a script that is seldom called: no server has to know it.
    #[cfg(any(test, feature = "cluster", feature = "takeover"))]
    pub(crate) fn call_whole(&mut self, script: &Script, keys: &[&[u8]], words: &[&[u8]]) {
        self.form = self.form.max(Form::Whole);
        self.call(script, keys, words);
    }

    /// What says `OK` or nothing.
    pub(crate) fn plain(&mut self, words: &[&[u8]]) {
        self.is_stamped = false;
        encode_parts(&mut self.bytes, b"", &[words], 0);
    }
}

impl Script {
    /// A call of it, behind which there is to be one word more: a stamp.
    pub(super) fn spell(&self, out: &mut BytesMut, form: Form, keys: &[&[u8]], words: &[&[u8]]) {
        if form == Form::Loaded {
            encode_parts(out, b"", &[&[b"SCRIPT", b"LOAD", self.text.as_bytes()]], 0);
        }
        match (u8::try_from(keys.len()), form) {
            (Ok(ones @ 0..10), Form::Digest | Form::Loaded) => {
                let mut head = HEAD;
                head[DIGEST_AT..][..DIGEST_LENGTH].copy_from_slice(self.digest);
                head[COUNT_AT] += ones;
                encode_parts(out, &head, &[keys, words], 4);
            }
            _ => {
                let (count, clocked) = (Decimal::new(keys.len() as u64), self.clocked(form));
                let head: [&[u8]; 3] = match form {
                    Form::Digest | Form::Loaded => [b"EVALSHA", self.digest, &count],
                    Form::Whole => [b"EVAL", self.text.as_bytes(), &count],
                    Form::Clocked(_) => [b"EVAL", clocked.as_bytes(), &count],
                };
                encode_parts(out, b"", &[&head, keys, words], 1);
            }
        }
    }

    /// Its text with that clock. Its lines keep their numbers, by which servers name what they refuse.
    #[cold]
    fn clocked(&self, form: Form) -> String {
        match form {
            Form::Clocked(clock) => {
                let (mut text, mut rest) = (String::from(clock) + " ", self.text);
                while let Some((before, behind)) = parted(rest, "redis.call('TIME')") {
                    text = text + before + "clock()";
                    rest = behind;
                }
                text + rest
            }
            _ => String::new(),
        }
    }
}
