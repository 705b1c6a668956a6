//! Locks that several clients may share: `scripts/share.lua` has the arguments and replies.
//!
//! The words of a share are the limit, 0 without one, and its weight.

use std::num::NonZeroU32;

use leasehold_resp::{Decimal, Frame};

use crate::machine::{Alone, Answer, FENCED, Kind, Means, PLAIN, Question, Script};
use crate::policy::{Ballot, Failing};
use crate::scripts::{SHARE, script};

/// A request for a lock that others may have shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The limit, 0 without one, and the weight; none for the whole lock.
    pub(crate) share: Option<[u32; 2]>,
}

impl Sharing {
    /// The whole lock.
    pub(crate) const WHOLE: Self = Self { share: None };
    /// One share, beside any number of others.
    pub(crate) const ANY: Self = Self { share: Some([0, 1]) };

    /// As many shares of a limited number as the weight says.
    pub(crate) fn limited(limit: NonZeroU32, weight: NonZeroU32) -> Self {
        Self { share: Some([limit.get(), weight.get()]) }
    }

    pub(crate) fn kind(self, is_fenced: bool) -> &'static Kind {
        match (self.share, is_fenced) {
            (Some(_), _) => &SHARES,
            (None, true) => &WHOLE,
            (None, false) => &PLAINLY_WHOLE,
        }
    }

    /// The kind to which a lease with another share of the lock changes.
    pub(crate) fn turned(self) -> &'static Kind {
        if self.share.is_some() { &SHARES } else { &UPGRADED }
    }

    pub(crate) fn words(self) -> Box<[Box<[u8]>]> {
        let share = self.share.iter().flatten();
        share.map(|number| Decimal::new((*number).into()).to_vec().into()).collect()
    }

    /// Whether a lease of this kind, with these words, has this share.
    pub(crate) fn is_of(self, kind: &Kind, words: &[Box<[u8]>]) -> bool {
        let kinds: &[&Kind] =
            if self.share.is_some() { &[&SHARES] } else { &[&WHOLE, &PLAINLY_WHOLE, &UPGRADED] };
        kinds.iter().any(|known| std::ptr::eq(*known, kind)) && *self.words() == *words
    }
}

pub(crate) const PROLONG: Script = script!("prolong.lua");

/// A share of the lock; in the place of the whole lock, it keeps a share of that.
static SHARES: Kind = Kind {
    is_fenced: true,
    is_exclusive: false,
    goes_on: false,
    has_guard: true,
    acquire: |question| match question.predecessor {
        None => take(question, b"take"),
        Some(_) => turn(question, b"downgrade"),
    },
    read,
    wait: Some(|question, [how, channel, life]| {
        let ttl = Decimal::new(question.ttl_ms);
        let [limit, weight] = wanted(&question);
        call(question, &[how, &ttl, limit, weight, channel, life]);
    }),
    release: |question| {
        let is_single = *wanted(&question)[1] == *b"1";
        let how: &[u8] = match (question.may_be_queued, is_single) {
            (true, _) => b"leave",
            (false, true) => b"single",
            (false, false) => b"",
        };
        call(question, &[how]);
    },
    alone: Some(Alone {
        extend: |question| {
            let Question { command, names, owner, ttl_ms, .. } = question;
            let keys = [names.lock(), &names.shares()];
            command.call(&PROLONG, &keys, &[owner, &Decimal::new(ttl_ms)]);
        },
        read: |frame| Answer::of_extend(frame, 0, 1),
        repair: |question| take(question, b"mend"),
        means: Means::SCRIPTS,
    }),
    also: |_| &[],
    becomes: None,
};

const ALL: Kind = Kind {
    is_fenced: true,
    is_exclusive: true,
    goes_on: true,
    has_guard: true,
    acquire: FENCED.acquire,
    read: FENCED.read,
    wait: FENCED.wait,
    release: |question| {
        #[cfg(any(test, feature = "grace"))]
        if question.command.is_only_freed {
            return (FENCED.release)(question);
        }
        let how: &[u8] = if question.may_be_queued { b"leave" } else { b"" };
        call(question, &[how]);
    },
    alone: None,
    also: |_| &[],
    becomes: None,
};

/// The whole lock, whose release lets sharers in.
static WHOLE: Kind = ALL;

/// The same without fencing.
static PLAINLY_WHOLE: Kind =
    Kind { is_fenced: false, acquire: PLAIN.acquire, read: PLAIN.read, ..ALL };

/// The whole lock in the place of the only share.
static UPGRADED: Kind = Kind { acquire: |question| turn(question, b"upgrade"), read, ..ALL };

/// Whether a lease of this kind uses the key of the shares.
pub(crate) fn has_shares(kind: &Kind) -> bool {
    [&SHARES, &WHOLE, &PLAINLY_WHOLE, &UPGRADED].into_iter().any(|known| std::ptr::eq(known, kind))
}

fn read(reply: &Frame) -> Option<Answer> {
    let Frame::Array(items) = reply else { return None };
    match items.get(1..)? {
        [Frame::Bulk(word), Frame::Integer(theirs), Frame::Integer(ours)] if word == "limit" => {
            let other = Answer::Failed { failing: Failing::Hopeless, is_run: false };
            (theirs != ours).then_some(other)
        }
        _ => Answer::of_acquire(reply),
    }
}

fn call(question: Question<'_>, words: &[&[u8]]) {
    let Question { command, names, owner, .. } = question;
    let (queue, shares) = (names.queue(), names.shares());
    let keys = [names.lock(), names.fence(), &queue, &shares];
    command.call(&SHARE, &keys, &[&[owner], words].concat());
}

fn wanted<'a>(question: &Question<'a>) -> [&'a [u8]; 2] {
    match question.words {
        [limit, weight] => [limit, weight],
        _ => [b"0", b"1"],
    }
}

/// The largest token that is known of any server.
fn least(question: &Question<'_>) -> Decimal {
    let led_to = question.ballot.filter(|ballot| ballot.is_outbid()).map_or(0, Ballot::proposal);
    Decimal::new(led_to.max(question.token))
}

/// `how` is `take`, or `mend` for an owner that has shares on other servers.
fn take(question: Question<'_>, how: &[u8]) {
    let (ttl, least) = (Decimal::new(question.ttl_ms), least(&question));
    let ([limit, weight], is_alone) = (wanted(&question), question.command.is_alone);
    let words: [&[u8]; 5] = [how, &ttl, limit, weight, &least];
    call(question, &words[..words.len() - usize::from(is_alone)]);
}

/// Replaces the predecessor's share.
fn turn(question: Question<'_>, how: &[u8]) {
    let (ttl, least) = (Decimal::new(question.ttl_ms), least(&question));
    let (from, is_alone) = (question.predecessor.unwrap_or_default(), question.command.is_alone);
    let words: [&[u8]; 4] = [how, &ttl, from, &least];
    call(question, &words[..words.len() - usize::from(is_alone)]);
}
