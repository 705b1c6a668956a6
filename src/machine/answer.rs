//! The replies that a command can have, what each means for a lease, and which earlier replies it proves. The head of each
//! script lists its replies.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame};

use super::rules::Standing;
use super::session::Fault;
use crate::policy::{Code, Failing, VoteReply, number};

/// With these errors a server runs no command for now.
const NOTHING_RUNS: [&str; 4] = ["BUSY ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN "];

/// One server's answer to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes; with the fencing token, if that is not the proposed one.
    Granted(Option<u64>),
    /// Yes, with this token; another owner had the lock until then.
    Seized(u64),
    /// No: another owner has the lock, or other waiters are before this one.
    Held { frees_in: Option<Duration>, counter: u64 },
    /// No: the owner does not, or no longer, have the lock.
    NotOwned,
    /// No: the token is not above this counter.
    Stale { counter: u64 },
    /// No: the token is too far ahead of the server's clock, in microseconds.
    Ahead { clock: u64 },
    /// No usable answer; if `is_run`, the server may have carried out the command.
    Failed { failing: Failing, is_run: bool },
}

impl Answer {
    pub(super) const UNKNOWN: Self = Self::Failed { failing: Failing::Otherwise, is_run: true };
    pub(super) const NOT_RUN: Self = Self::Failed { failing: Failing::Otherwise, is_run: false };

    /// The reply of `acquire.lua` and of `seize.lua`, without its stamp.
    pub(crate) fn of_acquire(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else {
            return matches!(reply, Frame::Bulk(_)).then_some(Self::Granted(None));
        };
        Some(match items.get(1..)? {
            [Frame::Bulk(word), Frame::Integer(token)] if word == "granted" => {
                Self::Granted(Some(u64::try_from(*token).ok()?))
            }
            [Frame::Bulk(word), Frame::Integer(token), ..] if word == "seized" => {
                Self::Seized(u64::try_from(*token).ok()?)
            }
            // The owner, or the one from which the lock was to be taken, does not have it.
            [Frame::Integer(0)] => Self::NotOwned,
            [Frame::Bulk(word), Frame::Bulk(_), Frame::Integer(pttl), Frame::Bulk(counter), ..]
                if word == "held" =>
            {
                let frees_in = u64::try_from(*pttl).ok().map(|ms| Duration::from_millis(ms + 1));
                Self::Held { frees_in, counter: number(counter).unwrap_or(0) }
            }
            [Frame::Bulk(word), Frame::Integer(_)] if word == "queued" => {
                Self::Held { frees_in: None, counter: 0 }
            }
            [Frame::Bulk(word), Frame::Bulk(counter)] if word == "stale" => {
                // If another program has written the counter, no token is known to be above it.
                let failed = Self::Failed { failing: Failing::Hopeless, is_run: false };
                number(counter).map_or(failed, |counter| Self::Stale { counter })
            }
            [Frame::Bulk(word), Frame::Bulk(clock)] if word == "ahead" => {
                Self::Ahead { clock: number(clock)? }
            }
            _ => return None,
        })
    }

    /// The reply of `SET key value NX PX ttl`.
    pub(crate) fn of_set(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Simple(_) => Some(Self::Granted(None)),
            Frame::Null => Some(Self::Held { frees_in: None, counter: 0 }),
            _ => None,
        }
    }

    /// The reply of `release.lua` and of `repair.lua`.
    pub(crate) fn of_owned(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Bulk(_) => Some(Self::Granted(None)),
            Frame::Array(items) if items.get(1..)? == [Frame::Integer(0)] => Some(Self::NotOwned),
            _ => None,
        }
    }

    /// The answer of `extend.lua` or `free.lua` for the lease at this index among `count`.
    pub(crate) fn of_extend(reply: &Frame, at: usize, count: usize) -> Option<Self> {
        match reply {
            Frame::Bulk(_) => Some(Self::Granted(None)),
            Frame::Array(items) if items.len() == count + 1 => match items[at + 1] {
                Frame::Integer(1) => Some(Self::Granted(None)),
                Frame::Integer(0) => Some(Self::NotOwned),
                _ => None,
            },
            _ => None,
        }
    }

    /// The meaning of an error.
    #[cold]
    pub(super) fn of_error(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let code = Code::of(&text);
        let ran_nothing = match code {
            Code::NoScript | Code::Again | Code::Apart | Code::ReadOnly | Code::Elsewhere => true,
            // Some of the other errors that mean "not now" come from the middle of a script.
            Code::Later => NOTHING_RUNS.iter().any(|word| text.starts_with(word)),
            _ => false,
        };
        let failing = if code.is_lasting() { Failing::Hopeless } else { Failing::Otherwise };
        Self::Failed { failing, is_run: !ran_nothing }
    }

    /// The vote that an attempt counts.
    pub(super) fn as_vote(self) -> VoteReply {
        match self {
            Self::Granted(token) => VoteReply::Granted { token },
            Self::Seized(token) => VoteReply::Granted { token: Some(token) },
            Self::Held { frees_in, counter } => VoteReply::Refused { frees_in, counter },
            Self::NotOwned => VoteReply::Refused { frees_in: None, counter: 0 },
            Self::Stale { counter } => VoteReply::Stale { counter },
            Self::Ahead { clock } => VoteReply::Ahead { clock },
            Self::Failed { failing, .. } => VoteReply::Failed(failing),
        }
    }
}

/// What is kept of a reply other than a plain grant, copied out of the receive buffer.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// Another owner has the lock: the key's value, and its milliseconds left.
    Held(Box<[u8]>, i64),
    /// As above, with an unknown value.
    Taken,
    /// A grant of a lock that another owner had until then.
    Seized(Box<[u8]>, i64),
    /// The lock is free, and has this number of waiters.
    Queued(u64),
    /// The token is too small, or too far ahead.
    Stale,
    /// The owner does not, or no longer, have it.
    NotOwned,
    /// The semaphore has another limit than the request: both numbers.
    Unlike(u64, u64),
    Refused(Box<[u8]>),
    Unexpected,
}

/// Each with the index of its server.
pub(super) type Answers = Vec<(usize, Kept)>;

impl Kept {
    /// Whether a repetition would get the same answer.
    pub(super) fn is_denial(&self) -> bool {
        let Self::Refused(text) = self else { return false };
        let code = Code::of_bytes(text);
        matches!(code, Code::Permission | Code::Unscripted | Code::Unsupported | Code::WrongType)
    }

    #[inline(never)]
    pub(super) fn of(reply: &Frame) -> Self {
        if let Some(text) = reply.error() {
            return Self::Refused(text[..].into());
        }
        let Frame::Array(items) = reply.value() else {
            return if matches!(reply.value(), Frame::Null) {
                Self::Taken
            } else {
                Self::Unexpected
            };
        };
        match items.get(1..) {
            Some([Frame::Bulk(word), Frame::Bulk(value), Frame::Integer(pttl), ..])
                if word == "held" =>
            {
                Self::Held(value[..].into(), *pttl)
            }
            Some([Frame::Bulk(word), _, Frame::Bulk(value), Frame::Integer(pttl)])
                if word == "seized" =>
            {
                Self::Seized(value[..].into(), *pttl)
            }
            Some([Frame::Integer(0)]) => Self::NotOwned,
            Some([Frame::Bulk(word), Frame::Integer(waiting)]) if word == "queued" => {
                Self::Queued(u64::try_from(*waiting).unwrap_or(1))
            }
            Some([Frame::Bulk(word), Frame::Integer(theirs), Frame::Integer(ours)])
                if word == "limit" =>
            {
                let number = |number: i64| u64::try_from(number).unwrap_or(0);
                Self::Unlike(number(*theirs), number(*ours))
            }
            Some([Frame::Bulk(word), ..]) if word == "stale" || word == "ahead" => Self::Stale,
            _ => Self::Unexpected,
        }
    }
}

pub(super) const STAMP_DIGITS: usize = 16;

pub(super) type Digits = [u8; STAMP_DIGITS];

/// A stamp in a command or a reply.
pub(super) fn spelled(stamp: Digits) -> [u8; STAMP_DIGITS + 7] {
    let mut spelled = *b"$16\r\n0000000000000000\r\n";
    spelled[5..][..STAMP_DIGITS].copy_from_slice(&stamp);
    spelled
}

/// The form of the reply to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Of a script: the stamp, or an array that begins with it.
    Stamped(Digits),
    /// `OK` or nothing.
    Flag,
    /// The digest of a script.
    Digest(&'static [u8]),
    /// A number.
    Number,
    /// A text, or nothing.
    Text,
    /// Only an error: a push confirms the channel.
    Subscribed,
    /// Anything.
    Any,
}

impl Place {
    /// Skips the most common reply, if it has come whole: its stamp is not needed again.
    #[inline]
    pub(super) fn skip(
        self,
        decoder: &mut Decoder,
        bytes: &mut BytesMut,
    ) -> Option<(Frame, Standing)> {
        match self {
            Self::Stamped(digits) => {
                let is_it = decoder.skip(bytes, &spelled(digits));
                is_it.then(|| (Frame::Bulk(Bytes::new()), Standing::Proves))
            }
            Self::Flag => {
                let is_it = decoder.skip(bytes, b"+OK\r\n");
                is_it.then(|| (Frame::Simple(Bytes::from_static(b"OK")), Standing::Pends))
            }
            _ => None,
        }
    }

    pub(super) fn judge(self, frame: &Frame) -> Result<Standing, Fault> {
        let value = frame.value();
        let is_stamp = |frame: &Frame, digits: &Digits| matches!(frame, Frame::Bulk(text) if text[..] == *digits);
        match (self, value) {
            (Self::Stamped(digits), Frame::Bulk(_)) if is_stamp(value, &digits) => {
                Ok(Standing::Proves)
            }
            (Self::Stamped(digits), Frame::Array(items))
                if items.first().is_some_and(|first| is_stamp(first, &digits)) =>
            {
                Ok(Standing::Proves)
            }
            (Self::Digest(digest), Frame::Bulk(text)) if text[..] == *digest => Ok(Standing::Pends),
            (Self::Flag, Frame::Simple(_) | Frame::Null)
            | (Self::Number, Frame::Integer(_))
            | (Self::Text, Frame::Bulk(_) | Frame::Null)
            | (Self::Any, _) => Ok(Standing::Pends),
            _ => Err(Fault::Misplaced),
        }
    }
}
