//! How scripts and commands are encoded. The command of one lease is encoded once; the copies for several servers differ only
//! in the stamp at the end.

use bytes::BytesMut;
use leasehold_resp::{Decimal, encode_parts};

use crate::policy::Moment;
use crate::policy::parts::{find, parted};

const DIGEST_LENGTH: usize = 40;
/// The beginning of nearly all calls; the digest and the number of keys are filled in.
const HEAD: [u8; 67] =
    *b"$7\r\nEVALSHA\r\n$40\r\n0000000000000000000000000000000000000000\r\n$1\r\n0\r\n";
const DIGEST_AT: usize = 18;
const COUNT_AT: usize = DIGEST_AT + DIGEST_LENGTH + 6;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Command {
    pub(super) bytes: BytesMut,
    /// It calls a script, which returns the stamp after its arguments.
    pub(super) is_stamped: bool,
    pub(super) form: Form,
    /// There is no other server.
    pub(crate) is_alone: bool,
    /// A release hands the lock to nobody.
    #[cfg(any(test, feature = "grace"))]
    pub(crate) is_only_freed: bool,
    #[cfg(any(test, feature = "cluster"))]
    pub(super) slot_of: Option<fn(&[u8]) -> u16>,
}

/// The recent releases on a link.
pub(crate) trait Memory: Send {
    /// Notes a release that was written.
    fn note(&mut self, release: &Command, now: Moment);
    /// Repeats them by `tell` to a server that may lack some.
    fn tell_again(&mut self, now: Moment, tell: &mut dyn FnMut(&Command));
}

impl Command {
    pub(crate) fn new(is_alone: bool) -> Self {
        Self {
            bytes: BytesMut::new(),
            is_stamped: false,
            form: Form::Digest,
            is_alone,
            #[cfg(any(test, feature = "grace"))]
            is_only_freed: false,
            #[cfg(any(test, feature = "cluster"))]
            slot_of: None,
        }
    }

    /// Encodes the call of a script with its keys and arguments.
    pub(crate) fn call(&mut self, script: &Script, keys: &[&[u8]], words: &[&[u8]]) {
        self.is_stamped = true;
        script.spell(&mut self.bytes, self.form, keys, words);
    }

    /// The same by `EVAL`, for a script that is seldom called.
    #[cfg(any(test, feature = "cluster", feature = "takeover"))]
    pub(crate) fn call_whole(&mut self, script: &Script, keys: &[&[u8]], words: &[&[u8]]) {
        self.form = self.form.max(Form::Whole);
        self.call(script, keys, words);
    }

    /// Encodes a command whose reply is `OK` or null.
    pub(crate) fn plain(&mut self, words: &[&[u8]]) {
        self.is_stamped = false;
        encode_parts(&mut self.bytes, b"", &[words], 0);
    }
}

impl Script {
    /// Encodes a call of the script without its last argument, the stamp.
    #[inline]
    pub(super) fn spell(&self, out: &mut BytesMut, form: Form, keys: &[&[u8]], words: &[&[u8]]) {
        self.begin(out, form, keys.len(), [keys, words], 0);
    }

    /// Encodes the beginning of a call with this number of keys: `more` arguments follow, and the stamp.
    pub(super) fn begin(
        &self,
        out: &mut BytesMut,
        form: Form,
        count: usize,
        [keys, words]: [&[&[u8]]; 2],
        more: usize,
    ) {
        if form == Form::Loaded {
            encode_parts(out, b"", &[&[b"SCRIPT", b"LOAD", self.text.as_bytes()]], 0);
        }
        match (u8::try_from(count), form) {
            (Ok(ones @ 0..10), Form::Digest | Form::Loaded) => {
                let mut head = HEAD;
                head[DIGEST_AT..][..DIGEST_LENGTH].copy_from_slice(self.digest);
                head[COUNT_AT] += ones;
                encode_parts(out, &head, &[keys, words], 4 + more);
            }
            _ => {
                let (count, clocked) = (Decimal::new(count as u64), self.clocked(form));
                let head: [&[u8]; 3] = match form {
                    Form::Digest | Form::Loaded => [b"EVALSHA", self.digest, &count],
                    Form::Whole => [b"EVAL", self.text.as_bytes(), &count],
                    Form::Clocked(_) => [b"EVAL", clocked.as_bytes(), &count],
                };
                encode_parts(out, b"", &[&head, keys, words], 1 + more);
            }
        }
    }

    /// The script's text with that clock. Line numbers stay the same, because servers' errors name them.
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

/// The text of a Lua script, and the digest by which servers call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) digest: &'static [u8],
}

/// How a script is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Digest,
    /// By `EVAL`.
    Whole,
    /// By its digest, after a command that loads it.
    Loaded,
    /// By `EVAL`, with another clock than `TIME`.
    Clocked(&'static str),
}

/// The scripts of a lock: the head of each file in `scripts/` says what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) extend: Script,
    pub(crate) release: Script,
    pub(crate) repair: Script,
    pub(crate) queue: Script,
    /// The clock that is put on the first line of a script where none may call `TIME`.
    pub(crate) clock: &'static str,
    /// Loaded once a server lacks it: most programs never have much under way.
    pub(crate) free: Script,
    /// The scripts that are seldom called: no handshake loads them.
    pub(crate) others: &'static [Script],
}

impl Scripts {
    /// The scripts that each handshake loads.
    #[inline(never)]
    pub(crate) fn loaded(&self) -> [Script; 5] {
        [self.acquire, self.extend, self.release, self.repair, self.queue]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Script> + use<> {
        self.loaded().into_iter().chain([self.free]).chain(self.others.iter().copied())
    }

    /// The text of the script that an error names, if the server names one.
    pub(crate) fn of_error(&self, error: &[u8]) -> &'static str {
        let found = self.all().find(|script| find(error, script.digest).is_some());
        found.map_or("", |script| script.text)
    }
}
