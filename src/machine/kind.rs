//! The differences between kinds of leases, as data.

use leasehold_resp::{Decimal, Frame};

use super::answer::Answer;
use super::command::{Command, Scripts};
use crate::names::Names;
use crate::policy::Ballot;

/// Arguments of a kind beside the names of a lease.
pub(crate) type Words = [Box<[u8]>];
type Wait = fn(Question<'_>, [&[u8]; 3]);

/// A command to servers for a lease.
pub(crate) struct Question<'a> {
    pub(crate) command: &'a mut Command,
    pub(crate) names: &'a Names,
    /// Further arguments of the kind.
    pub(crate) words: &'a [Box<[u8]>],
    pub(crate) owner: &'a [u8],
    /// The owner whose lock counts as free.
    pub(crate) predecessor: Option<&'a [u8]>,
    pub(crate) ttl_ms: u64,
    /// The token of the granted lease, or of the one that it replaces.
    pub(crate) token: u64,
    /// The proposed token.
    pub(crate) ballot: Option<Ballot>,
    /// Tokens are set aside for other requests of this process.
    pub(super) goes_on: bool,
    /// A free lock is left to its waiters.
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

    /// The same; `is_alone` if one server alone accepts the proposal.
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

    /// The keys of a lock that a release names: with all of them it hands the lock on.
    pub(crate) fn freed<'k>(&self, keys: &'k [&'k [u8]; 3]) -> &'k [&'k [u8]] {
        #[cfg(any(test, feature = "grace"))]
        if self.command.is_only_freed {
            return &keys[..1];
        }
        keys
    }

    /// Whether the script leaves a free lock to its waiters.
    pub(crate) fn taking(&self) -> &'static [u8] {
        if self.defers { b"turn" } else { b"take" }
    }
}

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Whether a token is proposed.
    pub(crate) is_fenced: bool,
    /// The lock has one holder. Requests of one process for it stand in a line, a change of its key tells of its end, and
    /// it passes to the next. Requests for shares ask each for themselves, first the one
    /// server that knows the waiters, and servers choose the token.
    pub(crate) is_exclusive: bool,
    /// Whether the lock may be passed on within its process: else only its queue says which waiter is next.
    pub(crate) goes_on: bool,
    /// Whether a caller has a guard of it, and is told of its end.
    pub(crate) has_guard: bool,
    pub(crate) acquire: fn(Question<'_>),
    pub(crate) read: fn(&Frame) -> Option<Answer>,
    /// Enters a queue, or says that the owner still waits there: how, by which channel, and how long its entry lives.
    /// None if each request polls for itself.
    pub(crate) wait: Option<Wait>,
    pub(crate) release: fn(Question<'_>),
    /// See [`Kind::alone`].
    pub(crate) alone: Option<Alone>,
    /// The arguments that are keys of further locks.
    pub(crate) also: fn(&Words) -> &Words,
    /// The kind after the grant, for a request that takes the lock from its holder, and so never waits for it.
    pub(crate) becomes: Option<&'static Kind>,
}

impl Kind {
    /// Whether its requests stand in their process's line, of which only the first asks. A part of another request
    /// (not passed on, without a guard) does not: its own priority gives it its place in the queue.
    pub(super) fn stands_in_line(&self) -> bool {
        let may_not = cfg!(any(test, feature = "_kinds"));
        let is_part = !self.goes_on && !self.has_guard;
        !may_not || self.is_exclusive && self.wait.is_some() && !is_part
    }

    /// How it is renewed, if not by the lock's key alone.
    pub(super) fn alone(&self) -> Option<&Alone> {
        if cfg!(any(test, feature = "_kinds")) { self.alone.as_ref() } else { None }
    }

    /// See [`Means`].
    pub(super) fn means(&self) -> &Means {
        let may_differ = cfg!(any(test, feature = "scriptless"));
        self.alone().filter(|_| may_differ).map_or(&Means::SCRIPTS, |alone| &alone.means)
    }

    /// If no other kind is compiled, the compiler drops the code for them.
    pub(super) fn is_exclusive(&self) -> bool {
        !cfg!(any(test, feature = "_kinds")) || self.is_exclusive
    }

    /// See [`Kind::also`].
    pub(super) fn also<'a>(&self, words: &'a Words) -> &'a Words {
        if cfg!(any(test, feature = "_kinds")) { (self.also)(words) } else { &[] }
    }
}

/// The commands that renew a lease, if its kind has its own.
#[derive(Clone, Copy)]
pub(crate) struct Alone {
    pub(crate) extend: fn(Question<'_>),
    pub(crate) read: fn(&Frame) -> Option<Answer>,
    /// Gives it to a server again, which answers as to `acquire`.
    pub(crate) repair: fn(Question<'_>),
    pub(crate) means: Means,
}

/// What the commands of a lease can do.
#[derive(Clone, Copy)]
pub(crate) struct Means {
    /// Decodes the reply of the release.
    pub(crate) read_release: fn(&Frame) -> Option<Answer>,
    /// They compare only the beginning of a value, so that a mark at its end can say that a waiter is in a queue.
    pub(crate) know_marks: bool,
    /// They read the lock, so that the server tells of its next change. Otherwise a separate command reads it.
    pub(crate) read_the_lock: bool,
    /// `acquire` only takes the lock, and `extend` proves that it is the owner's: `steps.rs` makes a grant of both.
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

/// A lock without fencing tokens: one command takes it.
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
