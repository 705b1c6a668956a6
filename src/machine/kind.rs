//! The differences between kinds of leases, as data.

use leasehold_resp::{Decimal, Frame};

use super::answer::Answer;
use super::command::{Command, Scripts};
use crate::names::Names;
use crate::policy::Ballot;

/// What a kind is told beside the names of a lease.
pub(crate) type Words = [Box<[u8]>];
type Wait = fn(Question<'_>, [&[u8]; 3]);

/// A question to servers.
pub(crate) struct Question<'a> {
    pub(crate) command: &'a mut Command,
    pub(crate) names: &'a Names,
    /// What is asked for beside that, as the kind reads it.
    pub(crate) words: &'a [Box<[u8]>],
    pub(crate) owner: &'a [u8],
    /// Whose lock is as good as free.
    pub(crate) predecessor: Option<&'a [u8]>,
    pub(crate) ttl_ms: u64,
    /// Of a lease that was granted, or of the one in whose place it asks.
    pub(crate) token: u64,
    /// What is proposed.
    pub(crate) ballot: Option<Ballot>,
    /// Tokens are set aside, for others of this process.
    pub(super) goes_on: bool,
    /// A lock that others wait for is theirs.
    pub(super) defers: bool,
    /// The owner may be in a queue.
    pub(crate) may_be_queued: bool,
    pub(crate) scripts: &'a Scripts,
    /// Only the locks in this slot are asked for.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) slot: Option<u16>,
}

impl Question<'_> {
    /// Whether the lock of this key is asked for here.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn has(&self, _key: &[u8]) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        if let (Some(slot), Some(slot_of)) = (self.slot, self.command.slot_of) {
            return slot_of(_key) == slot;
        }
        true
    }

    /// How `acquire.lua` judges the proposal.
    pub(crate) fn how(&self) -> &'static [u8] {
        self.how_of(self.command.is_alone)
    }

    /// The same, where whatever has to accept the proposal does so alone, or is one of several.
    pub(crate) fn how_of(&self, is_alone: bool) -> &'static [u8] {
        let is_outbid = self.ballot.is_some_and(Ballot::is_outbid);
        match (is_alone, is_outbid, self.goes_on) {
            (true, _, false) => b"mint",
            (true, _, true) => b"mint on",
            (false, true, false) => b"outbid",
            (false, true, true) => b"outbid on",
            (false, false, false) => b"vote",
            (false, false, true) => b"vote on",
        }
    }

    /// Of a lock's keys those that a release names: it hands the lock on where it has all.
    pub(crate) fn freed<'k>(&self, keys: &'k [&'k [u8]; 3]) -> &'k [&'k [u8]] {
        #[cfg(any(test, feature = "grace"))]
        if self.command.is_only_freed {
            return &keys[..1];
        }
        keys
    }

    /// Whether the script leaves the lock to others.
    pub(crate) fn taking(&self) -> &'static [u8] {
        if self.defers { b"turn" } else { b"take" }
    }
}

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Whether a token is proposed.
    pub(crate) is_fenced: bool,
    /// Nobody else has any of the lock meanwhile. Those of one process that want it stand in a line, a server tells of its
    /// end by its key, and it passes to the next. Where others may have some of it, each asks for itself: first the one
    /// server that knows of those that wait, and servers choose the token.
    pub(crate) is_exclusive: bool,
    /// Whether the lock may go on within its process: else its queue alone says whose it is next.
    pub(crate) goes_on: bool,
    /// Whether somebody has a guard of it: its end is told.
    pub(crate) has_guard: bool,
    pub(crate) acquire: fn(Question<'_>),
    pub(crate) read: fn(&Frame) -> Option<Answer>,
    /// Has an owner enter a queue, or say that it still waits there: how, by which channel, and how long its entry lives.
    /// None where each request asks again and again for itself.
    pub(crate) wait: Option<Wait>,
    pub(crate) release: fn(Question<'_>),
    /// How it is kept, where the lock's key alone does not have it.
    pub(crate) alone: Option<Alone>,
    /// Those of the words that are keys of locks which it has beside its own.
    pub(crate) also: fn(&Words) -> &Words,
    /// What it is from its grant on, where it is taken from its holder: such a request contends with nobody.
    pub(crate) becomes: Option<&'static Kind>,
}

impl Kind {
    /// Whether its requests stand in the line of those of this process: one asks, and the others wait for that one. What
    /// passes to nobody and is kept for another request has the place in the queue that its own priority gives it.
    pub(super) fn stands_in_line(&self) -> bool {
        let may_not = cfg!(any(test, feature = "_kinds"));
        let is_part = !self.goes_on && !self.has_guard;
        !may_not || self.is_exclusive && self.wait.is_some() && !is_part
    }

    /// See [`Means`].
    pub(super) fn means(&self) -> &Means {
        let may_differ = cfg!(any(test, feature = "scriptless"));
        self.alone.as_ref().filter(|_| may_differ).map_or(&Means::SCRIPTS, |alone| &alone.means)
    }

    /// Where no other kind is compiled, the compiler drops what others need.
    pub(super) fn is_exclusive(&self) -> bool {
        !cfg!(any(test, feature = "_kinds")) || self.is_exclusive
    }

    /// See [`Kind::also`].
    pub(super) fn also<'a>(&self, words: &'a Words) -> &'a Words {
        if cfg!(any(test, feature = "_kinds")) { (self.also)(words) } else { &[] }
    }
}

/// How a lease is kept by commands of its own.
#[derive(Clone, Copy)]
pub(crate) struct Alone {
    pub(crate) extend: fn(Question<'_>),
    pub(crate) read: fn(&Frame) -> Option<Answer>,
    /// A server is given it again, and answers as to `acquire`.
    pub(crate) repair: fn(Question<'_>),
    pub(crate) means: Means,
}

/// What the commands of a lease can do.
#[derive(Clone, Copy)]
pub(crate) struct Means {
    /// Reads what the release says.
    pub(crate) read_release: fn(&Frame) -> Option<Answer>,
    /// They know a value by its beginning, so that a mark behind it can say that somebody waits: there are queues.
    pub(crate) know_marks: bool,
    /// They read the lock, so that the server tells of its next change. Else it is read behind them.
    pub(crate) read_the_lock: bool,
    /// `acquire` takes the lock alone, and `extend` proves that it is the owner's: `steps` makes a grant of these.
    pub(crate) are_steps: bool,
}

impl Means {
    pub(crate) const SCRIPTS: Self = Self {
        read_release: Answer::of_owned,
        know_marks: true,
        read_the_lock: true,
        are_steps: false,
    };
}

/// A lock with fencing tokens.
pub(crate) static FENCED: Kind = Kind {
    is_fenced: true,
    is_exclusive: true,
    goes_on: true,
    has_guard: true,
    acquire: |question| {
        let (how, taking) = (question.how(), question.taking());
        let Question { command, names, owner, ttl_ms, ballot, .. } = question;
        let proposal = Decimal::new(ballot.map_or(0, Ballot::proposal));
        let ttl = Decimal::new(ttl_ms);
        let queue = names.queue();
        let keys = [names.lock(), names.fence(), &queue];
        let predecessor = question.predecessor;
        let words = [owner, &ttl, &proposal, how, taking, predecessor.unwrap_or_default()];
        let words = &words[..5 + usize::from(predecessor.is_some())];
        command.call(&question.scripts.acquire, &keys, words);
    },
    read: Answer::of_acquire,
    wait: Some(|question, [how, channel, life]| {
        let Question { command, names, owner, ttl_ms, scripts, .. } = question;
        let (ttl, queue) = (Decimal::new(ttl_ms), names.queue());
        let keys = [names.lock(), names.fence(), &queue];
        command.call(&scripts.queue, &keys, &[owner, &ttl, how, channel, life]);
    }),
    release: |question| {
        let queue = question.names.queue();
        let keys = [question.names.lock(), question.names.fence(), &queue];
        let keys = question.freed(&keys);
        let how: &[u8] = if question.may_be_queued { b"leave" } else { b"" };
        question.command.call(&question.scripts.release, keys, &[question.owner, how]);
    },
    alone: None,
    also: |_| &[],
    becomes: None,
};

/// A lock without: one command takes it.
pub(crate) static PLAIN: Kind = Kind {
    is_fenced: false,
    is_exclusive: true,
    goes_on: true,
    has_guard: true,
    acquire: |question| {
        let Question { command, names, owner, ttl_ms, .. } = question;
        let ttl = Decimal::new(ttl_ms);
        let words = [b"SET", names.lock(), owner, b"NX", b"PX", &ttl];
        command.plain(&words);
    },
    read: Answer::of_set,
    wait: FENCED.wait,
    release: FENCED.release,
    alone: None,
    also: |_| &[],
    becomes: None,
};
