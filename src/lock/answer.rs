//! What a server's reply means for a lease. Each script's replies stand at its head.

use std::ops::Range;

use leasehold_resp::Frame;

use super::owner::holder_of;
use crate::error::{Holder, Vote};
pub(crate) use crate::net::reason::Reason;
use crate::net::refusal::Code;
use crate::policy::{VoteReply, number};

/// What one server said to one question. What is rare is on the heap, so that a grant is short.
#[derive(Debug)]
pub(super) enum Answer {
    /// Yes; with the fencing token, where it is another than the one that was proposed.
    Granted(Option<u64>),
    /// Yes, with this token: and the lock was another's until then.
    Seized { token: u64, from: Box<Holder> },
    /// No: the lock is another's.
    Held {
        holder: Box<Holder>,
        /// The largest token that the server has accepted; 0 where it was not asked.
        counter: u64,
        /// How many wait for the lock, this one included if it is counted.
        waiting: u32,
        /// The server's clock in microseconds; 0 where it was not asked.
        clock: u64,
    },
    /// No: others wait for the lock, which is free, or is the asking owner's to give back.
    Queued { waiting: u64 },
    /// The lock is free, and was only looked at.
    Free,
    /// No: another owner has the lock, and nothing is known of that owner.
    Taken,
    /// No: the lock is not, or no longer, the asking owner's.
    NotOwned,
    /// No: the server has accepted this token, which is not below the one proposed.
    Stale { counter: u64 },
    /// No: the token is too far ahead of the server's clock, in microseconds.
    Ahead { clock: u64 },
    /// Nothing that can be counted on.
    Failed(Box<Reason>),
}

impl Answer {
    /// The reply of `acquire.lua` and of `seize.lua`. As with all scripts, its stamp has been seen to.
    pub(super) fn of_acquire(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Integer(_stamp) => Some(Self::Granted(None)),
            Frame::Array(items) => match items.get(1..)? {
                [Frame::Bulk(word), Frame::Integer(token)] if word == "granted" => {
                    Some(Self::Granted(Some(u64::try_from(*token).ok()?)))
                }
                [
                    Frame::Bulk(word),
                    Frame::Integer(token),
                    Frame::Bulk(value),
                    Frame::Integer(pttl),
                ] if word == "seized" => Some(Self::Seized {
                    token: u64::try_from(*token).ok()?,
                    from: Box::new(holder_of(value, *pttl)),
                }),
                // What is to be taken from one owner, and is nobody's.
                [Frame::Integer(0)] => Some(Self::NotOwned),
                [
                    Frame::Bulk(word),
                    Frame::Bulk(value),
                    Frame::Integer(pttl),
                    Frame::Bulk(counter),
                    Frame::Integer(waiting),
                    clock @ ..,
                ] if word == "held" => Some(Self::Held {
                    holder: Box::new(holder_of(value, *pttl)),
                    counter: number(counter).unwrap_or(0),
                    waiting: u32::try_from(*waiting).unwrap_or(0),
                    clock: match clock {
                        [] => 0,
                        [Frame::Integer(clock)] => u64::try_from(*clock).ok()?,
                        _ => return None,
                    },
                }),
                [Frame::Bulk(word), Frame::Integer(waiting)] if word == "queued" => {
                    Some(Self::Queued { waiting: u64::try_from(*waiting).unwrap_or(1) })
                }
                [Frame::Bulk(word)] if word == "free" => Some(Self::Free),
                [Frame::Bulk(word), Frame::Bulk(counter)] if word == "stale" => {
                    Some(Self::Stale { counter: number(counter)? })
                }
                [Frame::Bulk(word), Frame::Bulk(clock)] if word == "ahead" => {
                    Some(Self::Ahead { clock: number(clock)? })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The server has let the owner in.
    pub(super) fn is_grant(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Seized { .. })
    }

    /// The reply of `queue.lua`.
    pub(super) fn of_queue(reply: &Frame) -> Option<Self> {
        match Self::of_owned(reply) {
            Some(Self::NotOwned) => Some(Self::NotOwned),
            _ => Self::of_acquire(reply).filter(|_| matches!(reply, Frame::Array(_))),
        }
    }

    /// The reply of `share.lua` to an owner that wants shares.
    pub(super) fn of_share(reply: &Frame) -> Option<Self> {
        if let Frame::Array(items) = reply {
            if let [Frame::Bulk(word), Frame::Integer(theirs), Frame::Integer(ours)] =
                items.get(1..)?
            {
                let limit = |limit: &i64| u64::try_from(*limit).ok();
                let (theirs, ours) = (limit(theirs)?, limit(ours)?);
                let is_so = word == "limit" && theirs != ours;
                let other = Reason::OtherLimit { theirs, ours };
                return is_so.then(|| Self::Failed(Box::new(other)));
            }
        }
        Self::of_queue(reply)
    }

    /// The reply of `SET key value NX PX ttl`.
    pub(super) fn of_set(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Simple(ok) if ok == "OK" => Some(Self::Granted(None)),
            Frame::Null => Some(Self::Taken),
            _ => None,
        }
    }

    /// The reply of `release.lua` and of `repair.lua`.
    pub(super) fn of_owned(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Integer(_stamp) => Some(Self::Granted(None)),
            Frame::Array(items) if items.get(1..)? == [Frame::Integer(0)] => Some(Self::NotOwned),
            _ => None,
        }
    }

    /// The reply of `release.lua` to an owner that only frees a lock.
    pub(super) fn of_freed(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Array(items) if items.get(1..)? == [Frame::Integer(1)] => {
                Some(Self::Queued { waiting: 1 })
            }
            reply => Self::of_owned(reply),
        }
    }

    /// The reply of `extend.lua` for the locks of one owner.
    pub(super) fn of_extend(reply: &Frame) -> Option<Self> {
        Extended::of(reply).map(|extended| extended.answer(0..usize::MAX))
    }

    /// The reply of `holder.lua`, asked because the lock was another's a moment ago.
    pub(super) fn of_holder(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        match items.get(1..)? {
            [] => Some(Self::Taken),
            [Frame::Bulk(value), Frame::Integer(pttl)] => {
                let holder = Box::new(holder_of(value, *pttl));
                Some(Self::Held { holder, counter: 0, waiting: 0, clock: 0 })
            }
            _ => None,
        }
    }

    /// The key is gone, another's, or not even a lock's any more.
    pub(super) fn is_proof_of_loss(&self) -> bool {
        match self {
            Self::NotOwned => true,
            Self::Failed(reason) => {
                matches!(&**reason, Reason::Refused(error) if error.code() == Code::WrongType)
            }
            _ => false,
        }
    }

    /// As an attempt counts it.
    pub(super) fn as_vote(&self) -> VoteReply {
        match self {
            Self::Granted(token) => VoteReply::Granted { token: *token },
            Self::Seized { token, .. } => VoteReply::Granted { token: Some(*token) },
            Self::Held { holder, counter, .. } => {
                VoteReply::Refused { frees_in: holder.remaining, counter: *counter }
            }
            Self::Taken | Self::Queued { .. } | Self::Free | Self::NotOwned => {
                VoteReply::Refused { frees_in: None, counter: 0 }
            }
            Self::Stale { counter } => VoteReply::Stale { counter: *counter },
            Self::Ahead { clock } => VoteReply::Ahead { clock: *clock },
            Self::Failed(reason) => VoteReply::Failed(reason.failing()),
        }
    }

    /// As the report of a client with this configuration shows it.
    pub(super) fn vote(&self, configuration: Option<&str>) -> Vote {
        match self {
            Self::Granted(_) => Vote::Granted,
            Self::Seized { from, .. } => Vote::Seized(Holder::clone(from).seen_from(configuration)),
            Self::Held { holder, .. } => {
                Vote::Held(Some(Holder::clone(holder).seen_from(configuration)))
            }
            Self::Queued { waiting } => Vote::Queued { waiting: *waiting },
            Self::Taken | Self::Free => Vote::Held(None),
            Self::NotOwned => Vote::NotOwned,
            Self::Stale { .. } | Self::Ahead { .. } => Vote::Stale,
            Self::Failed(reason) => {
                Vote::Failed { kind: reason.kind(), reason: reason.to_string() }
            }
        }
    }
}

/// The reply of `extend.lua`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extended {
    All,
    /// Of each lock, whether its lease was extended.
    Each(Vec<bool>),
}

impl Extended {
    pub(super) fn of(reply: &Frame) -> Option<Self> {
        match reply {
            Frame::Integer(_stamp) => Some(Self::All),
            Frame::Array(items) => {
                let is_extended = |lock: &Frame| match lock {
                    Frame::Integer(0) => Some(false),
                    Frame::Integer(1) => Some(true),
                    _ => None,
                };
                let each = items.get(1..)?.iter().map(is_extended).collect::<Option<Vec<_>>>()?;
                each.contains(&false).then_some(Self::Each(each))
            }
            _ => None,
        }
    }

    /// Whether it can be the reply for this many locks.
    pub(super) fn is_of(&self, locks: usize) -> bool {
        match self {
            Self::All => true,
            Self::Each(each) => each.len() == locks,
        }
    }

    /// What it says of an owner of these locks.
    pub(super) fn answer(&self, locks: Range<usize>) -> Answer {
        let is_lost = match self {
            Self::All => false,
            Self::Each(each) => {
                each.iter().enumerate().any(|(n, kept)| !kept && locks.contains(&n))
            }
        };
        if is_lost { Answer::NotOwned } else { Answer::Granted(None) }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const STAMP: i64 = 1_234_567_890_123_456;

    fn bulk(text: &'static str) -> Frame {
        Frame::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn replies_are_read_as_the_scripts_heads_say() {
        let yes = Frame::Integer(STAMP);
        let reply = |rest: &[Frame]| Frame::Array([&[Frame::Integer(STAMP)], rest].concat().into());
        assert!(matches!(Answer::of_acquire(&yes), Some(Answer::Granted(None))));
        let raised = Answer::of_acquire(&reply(&[bulk("granted"), Frame::Integer(7)]));
        assert!(matches!(raised, Some(Answer::Granted(Some(7)))));
        let held = [bulk("held"), bulk("other"), Frame::Integer(40), bulk("6"), Frame::Integer(2)];
        let answer = Answer::of_acquire(&reply(&held));
        let Some(Answer::Held { holder, counter: 6, waiting: 2, clock: 0 }) = answer else {
            panic!()
        };
        assert_eq!(holder.owner, "other");
        let answer = Answer::of_acquire(&reply(&[bulk("queued"), Frame::Integer(3)]));
        assert!(matches!(answer, Some(Answer::Queued { waiting: 3 })));
        assert!(matches!(Answer::of_acquire(&reply(&[bulk("free")])), Some(Answer::Free)));
        let stale = Answer::of_acquire(&reply(&[bulk("stale"), bulk("6")]));
        assert!(matches!(stale, Some(Answer::Stale { counter: 6 })));
        let seized = [bulk("seized"), Frame::Integer(7), bulk("other"), Frame::Integer(40)];
        let answer = Answer::of_acquire(&reply(&seized));
        let Some(Answer::Seized { token: 7, from }) = answer else { panic!() };
        assert_eq!(from.owner, "other");
        let gone = Answer::of_acquire(&reply(&[Frame::Integer(0)]));
        assert!(matches!(gone, Some(Answer::NotOwned)));
        assert!(matches!(Answer::of_owned(&yes), Some(Answer::Granted(None))));
        let no = reply(&[Frame::Integer(0)]);
        assert!(matches!(Answer::of_owned(&no), Some(Answer::NotOwned)));
        assert!(matches!(Answer::of_freed(&yes), Some(Answer::Granted(None))));
        assert!(matches!(Answer::of_freed(&no), Some(Answer::NotOwned)));
        let awaited = reply(&[Frame::Integer(1)]);
        assert!(matches!(Answer::of_freed(&awaited), Some(Answer::Queued { .. })));
        assert!(Answer::of_owned(&awaited).is_none());
        assert!(matches!(Answer::of_extend(&yes), Some(Answer::Granted(None))));
        assert!(matches!(Answer::of_extend(&no), Some(Answer::NotOwned)));
        assert!(matches!(
            Answer::of_set(&Frame::Simple(Bytes::from_static(b"OK"))),
            Some(Answer::Granted(None))
        ));
        assert!(matches!(Answer::of_set(&Frame::Null), Some(Answer::Taken)));
        assert!(matches!(Answer::of_holder(&reply(&[])), Some(Answer::Taken)));
        let holder = Answer::of_holder(&reply(&[bulk("other"), Frame::Integer(40)]));
        assert!(matches!(holder, Some(Answer::Held { .. })));
    }

    #[test]
    fn an_extension_of_several_owners_locks_is_told_apart() {
        let extended = |locks: &[i64]| {
            let items = [STAMP].iter().chain(locks).copied().map(Frame::Integer);
            Extended::of(&Frame::Array(items.collect()))
        };
        let each = extended(&[1, 0, 1]).unwrap();
        assert!(each.is_of(3) && !each.is_of(2));
        assert!(matches!(each.answer(0..1), Answer::Granted(None)));
        assert!(matches!(each.answer(0..2), Answer::NotOwned));
        assert!(matches!(each.answer(2..3), Answer::Granted(None)));
        assert!(Extended::All.is_of(3));
        assert!(matches!(Extended::All.answer(0..3), Answer::Granted(None)));
        for strange in [&[][..], &[1, 1], &[0, 2]] {
            assert_eq!(extended(strange), None, "{strange:?}");
        }
    }

    /// What is not understood is never a grant.
    #[test]
    fn replies_that_no_script_gives_mean_nothing() {
        let strange = [
            Frame::Null,
            Frame::Simple(Bytes::from_static(b"QUEUED")),
            Frame::Array([Frame::Integer(STAMP), bulk("held")].into()),
            Frame::Array([Frame::Integer(STAMP), Frame::Integer(1), bulk("6")].into()),
            Frame::Boolean(true),
        ];
        for frame in strange {
            assert!(Answer::of_acquire(&frame).is_none(), "{frame:?}");
            assert!(Answer::of_owned(&frame).is_none(), "{frame:?}");
            assert!(Answer::of_holder(&frame).is_none());
        }
        let below = vec![Frame::Integer(STAMP), bulk("granted"), Frame::Integer(-1)];
        assert!(Answer::of_acquire(&Frame::Array(below.into())).is_none());
        assert!(Answer::of_set(&Frame::Simple(Bytes::from_static(b"QUEUED"))).is_none());
        assert!(Answer::of_set(&Frame::Integer(1)).is_none());
        let two = Frame::Array([Frame::Integer(STAMP), Frame::Integer(2)].into());
        assert!(Answer::of_owned(&two).is_none());
    }
}
