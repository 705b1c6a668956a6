//! What a server's reply means for a lease. Each script's replies stand at its head.

use leasehold_resp::Frame;

use super::owner::holder_of;
use crate::error::{FailureKind, Holder, Vote};
use crate::net::handshake::OpenError;
use crate::net::outcome::{Failure, Fault};
use crate::net::refusal::{Code, ServerError};

/// What one server said to one question.
#[derive(Debug)]
pub(super) enum Answer {
    /// Yes; with the fencing token, where one was asked for.
    Granted(Option<u64>),
    /// No: the lock is another's.
    Held(Holder),
    /// No: the lock is another's, of whom nothing is known.
    Taken,
    /// No: the lock is not, or no longer, the one who asks's.
    NotOwned,
    /// No: the server has accepted a larger token than the one proposed.
    Stale,
    /// Nothing that can be counted on.
    Failed(Reason),
}

/// Why a server gave no usable answer.
#[derive(Debug)]
pub(crate) enum Reason {
    NoConnection(OpenError),
    NoReply(Failure),
    Refused(ServerError),
    /// A reply that the question does not have.
    Unexpected,
}

impl Answer {
    /// The reply of `acquire.lua`.
    pub(super) fn of_acquire(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Integer(token) => Some(Self::Granted(Some(u64::try_from(*token).ok()?))),
            Frame::Array(items) => match &items[..] {
                [Frame::Bulk(word), Frame::Bulk(value), Frame::Integer(pttl), Frame::Bulk(_)]
                    if word == "held" =>
                {
                    Some(Self::Held(holder_of(value, *pttl)))
                }
                [Frame::Bulk(word), Frame::Bulk(_)] if word == "stale" => Some(Self::Stale),
                _ => None,
            },
            _ => None,
        }
    }

    /// The reply of `SET key value NX PX ttl`.
    pub(super) fn of_set(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Simple(ok) if ok == "OK" => Some(Self::Granted(None)),
            Frame::Null => Some(Self::Taken),
            _ => None,
        }
    }

    /// The reply of `extend.lua` and of `release.lua`.
    pub(super) fn of_owned(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Integer(1) => Some(Self::Granted(None)),
            Frame::Integer(0) => Some(Self::NotOwned),
            _ => None,
        }
    }

    /// The reply of `holder.lua`, asked because the lock was another's a moment ago.
    pub(super) fn of_holder(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        match &items[..] {
            [] => Some(Self::Taken),
            [Frame::Bulk(value), Frame::Integer(pttl)] => Some(Self::Held(holder_of(value, *pttl))),
            _ => None,
        }
    }

    /// The key is gone, another's, or not even a lock's any more.
    pub(super) fn is_proof_of_loss(&self) -> bool {
        match self {
            Self::NotOwned => true,
            Self::Failed(Reason::Refused(error)) => error.code() == Code::WrongType,
            _ => false,
        }
    }

    /// As the report shows it.
    pub(super) fn vote(&self) -> Vote {
        match self {
            Self::Granted(_) => Vote::Granted,
            Self::Held(holder) => Vote::Held(Some(holder.clone())),
            Self::Taken => Vote::Held(None),
            Self::NotOwned => Vote::NotOwned,
            Self::Stale => Vote::Stale,
            Self::Failed(reason) => {
                Vote::Failed { kind: reason.kind(), reason: reason.to_string() }
            }
        }
    }
}

impl Reason {
    /// Who is at fault, and whether trying again can help.
    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::NoReply(Failure::Unknown(_)) | Self::Unexpected => FailureKind::Unknown,
            Self::NoReply(Failure::NotSent(Fault::TooLarge { .. })) => FailureKind::Misuse,
            Self::NoReply(Failure::NotSent(_)) => FailureKind::Unavailable,
            Self::Refused(error) | Self::NoConnection(OpenError::Refused { error, .. }) => {
                kind_of(error.code())
            }
            Self::NoConnection(OpenError::RuntimeGone) => FailureKind::Misuse,
            Self::NoConnection(_) => FailureKind::Unavailable,
        }
    }
}

fn kind_of(code: Code) -> FailureKind {
    match code {
        Code::Auth | Code::Permission => FailureKind::Auth,
        Code::Later | Code::ReadOnly | Code::NoScript => FailureKind::Unavailable,
        Code::Elsewhere | Code::WrongType | Code::Unsupported | Code::Other => FailureKind::Misuse,
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoConnection(error) => error.fmt(f),
            Self::NoReply(failure) => failure.fmt(f),
            Self::Unexpected => f.write_str("the server's reply makes no sense for a lock"),
            Self::Refused(error) => match error.code() {
                Code::ReadOnly => {
                    write!(f, "a replica, which takes no locks; give the master ({error})")
                }
                Code::Elsewhere => {
                    write!(f, "a node of a Redis Cluster, which is not supported ({error})")
                }
                Code::WrongType => write!(f, "the key holds something that is no lock ({error})"),
                _ => error.fmt(f),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn bulk(text: &'static str) -> Frame {
        Frame::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn replies_are_read_as_the_scripts_heads_say() {
        assert!(matches!(Answer::of_acquire(&Frame::Integer(7)), Some(Answer::Granted(Some(7)))));
        let held = vec![bulk("held"), bulk("other"), Frame::Integer(40), bulk("6")];
        let Some(Answer::Held(holder)) = Answer::of_acquire(&Frame::Array(held)) else { panic!() };
        assert_eq!(holder.owner, "other");
        let stale = vec![bulk("stale"), bulk("6")];
        assert!(matches!(Answer::of_acquire(&Frame::Array(stale)), Some(Answer::Stale)));
        assert!(matches!(Answer::of_owned(&Frame::Integer(1)), Some(Answer::Granted(None))));
        assert!(matches!(Answer::of_owned(&Frame::Integer(0)), Some(Answer::NotOwned)));
        assert!(matches!(
            Answer::of_set(&Frame::Simple(Bytes::from_static(b"OK"))),
            Some(Answer::Granted(None))
        ));
        assert!(matches!(Answer::of_set(&Frame::Null), Some(Answer::Taken)));
        assert!(matches!(Answer::of_holder(&Frame::Array(vec![])), Some(Answer::Taken)));
    }

    /// What is not understood is never a grant.
    #[test]
    fn replies_that_no_script_gives_mean_nothing() {
        let strange = [
            Frame::Null,
            Frame::Integer(-1),
            Frame::Simple(Bytes::from_static(b"QUEUED")),
            Frame::Array(vec![bulk("held")]),
            Frame::Array(vec![Frame::Integer(1), bulk("6")]),
            Frame::Boolean(true),
        ];
        for frame in strange {
            assert!(Answer::of_acquire(&frame).is_none(), "{frame:?}");
            assert!(Answer::of_owned(&frame).is_none(), "{frame:?}");
            assert!(Answer::of_holder(&frame).is_none());
        }
        assert!(Answer::of_set(&Frame::Simple(Bytes::from_static(b"QUEUED"))).is_none());
        assert!(Answer::of_set(&Frame::Integer(1)).is_none());
        assert!(Answer::of_owned(&Frame::Integer(2)).is_none());
    }
}
