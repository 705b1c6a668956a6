//! The meaning of a client's command for locks, and of its reply.

use bytes::Bytes;
use leasehold_resp::Frame;

use crate::extra::sharing as shares;
use crate::extra::takeover;
use crate::machine::Script;
use crate::scripts;

/// The number of `seize.lua`, which is not in the catalog.
const SEIZE: usize = usize::MAX;
/// The number of `share.lua` and of `prolong.lua`.
const SHARE: usize = usize::MAX - 1;
const PROLONG: usize = usize::MAX - 2;

pub(super) type Keys<'a> = Vec<&'a Bytes>;

/// The meaning of a command for locks.
pub(super) struct Deed<'a> {
    pub(super) what: What,
    /// The command was sent again with its script, which the server lacked.
    pub(super) is_repeat: bool,
    /// The command takes the lock from another owner.
    pub(super) is_seizing: bool,
    /// The command is about shares.
    pub(super) is_shared: bool,
    pub(super) locks: Keys<'a>,
    pub(super) counters: Keys<'a>,
    pub(super) argv: &'a [Bytes],
}

impl<'a> Deed<'a> {
    /// The meaning of a command that is no script.
    pub(super) fn plain(
        what: What,
        locks: Keys<'a>,
        counters: Keys<'a>,
        argv: &'a [Bytes],
    ) -> Self {
        let [is_repeat, is_seizing, is_shared] = [false; 3];
        Self { what, is_repeat, is_seizing, is_shared, locks, counters, argv }
    }

    /// The owners from which it takes over, if it takes anything.
    pub(super) fn takes_over(&self) -> &[Bytes] {
        let first = if self.is_turn() { 3 } else { 5 + usize::from(self.is_shared) };
        let takes = self.what == What::Acquire && !self.is_seizing;
        self.argv.get(first..).filter(|_| takes).unwrap_or_default()
    }

    /// Whether it makes a reader the writer, or the other way round.
    pub(super) fn is_turn(&self) -> bool {
        self.is_shared && self.argv[1].ends_with(b"grade")
    }

    /// Whether a holder reports its lease to a primary in its grace.
    pub(super) fn is_reassertion(&self) -> bool {
        self.what == What::Repair && !self.is_shared && self.argv.len() % 3 == 1
    }

    /// The owner for the lock at this index: commands for several locks have an owner for each.
    pub(super) fn owner(&self, index: usize) -> &Bytes {
        match self.what {
            What::Extend => &self.argv[2 * index],
            What::Free => &self.argv[index],
            What::Repair if !self.is_shared && self.argv.len() > 4 => &self.argv[3 * index],
            _ => &self.argv[0],
        }
    }

    /// Whether the released lock goes to the next waiter. A release that names only the lock frees it.
    pub(super) fn hands_on(&self) -> bool {
        let is_it = self.what == What::Release && !self.counters.is_empty();
        let how = self.argv.get(1).filter(|_| is_it);
        how.is_some_and(|how| matches!(&how[..], b"" | b"single" | b"leave"))
    }

    /// Whether it may take the lock from this owner: from the one that a ticket names, or from anybody.
    pub(super) fn may_seize_from(&self, owner: &Bytes) -> bool {
        self.is_reassertion()
            || self.is_seizing && self.argv.get(4).is_some_and(|from| owner.starts_with(from))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Acquire,
    Extend,
    Release,
    /// Of several locks for which nobody waits.
    Free,
    Repair,
    Set,
    Draw,
    /// In the queue.
    Wait,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "commands: acquire",
            Self::Extend => "commands: extend",
            Self::Release => "commands: release",
            Self::Free => "commands: free",
            Self::Repair => "commands: repair",
            Self::Set => "commands: set",
            Self::Draw => "commands: draw",
            Self::Wait => "commands: wait",
        }
    }
}

/// The meaning of a call of the script with this digest.
pub(super) fn deed<'a>(digest: &[u8], words: &'a [Bytes]) -> Option<Deed<'a>> {
    let is_known = |known: &Script| known.digest == digest;
    let count: usize = std::str::from_utf8(words.first()?).ok()?.parse().ok()?;
    let (keys, argv) = words[1..].split_at_checked(count)?;
    let (_stamp, argv) = argv.split_last()?;
    let number = scripts::CATALOG.iter().position(is_known);
    // `keep.lua` releases a lock, too.
    let number = number.or_else(|| is_known(&takeover::KEEP).then_some(2));
    let number = number.or_else(|| is_known(&takeover::SEIZE).then_some(SEIZE));
    let number = number.or_else(|| is_known(&scripts::SHARE).then_some(SHARE));
    let number = number.or_else(|| is_known(&shares::PROLONG).then_some(PROLONG))?;
    let (what, step) = match number {
        SHARE => match &argv.get(1)?[..] {
            b"mend" => (What::Repair, 4),
            b"take" | b"upgrade" | b"downgrade" => (What::Acquire, 4),
            b"enter" | b"beat" => (What::Wait, 4),
            b"" | b"single" | b"leave" => (What::Release, 4),
            _ => return None,
        },
        PROLONG => (What::Extend, 2),
        0 => (What::Acquire, 3),
        SEIZE => (What::Acquire, 2),
        1 => (What::Extend, 1),
        2 => (What::Release, 3),
        3 => (What::Repair, 2),
        4 => (What::Wait, 3),
        6 => (What::Free, 1),
        _ => return None,
    };
    let counters = if step > 2 || number == SEIZE || number == 3 { keys.get(1..)? } else { &[] };
    let counters = counters.iter().step_by(step).collect();
    let locks = keys.iter().step_by(step).collect();
    let (is_seizing, is_shared) = (number == SEIZE, matches!(number, SHARE | PROLONG));
    Some(Deed { what, is_repeat: false, is_seizing, is_shared, locks, counters, argv })
}

/// The token of a granted acquire; 0 if it asked for none.
pub(super) fn granted(reply: &Frame, deed: &Deed<'_>) -> Option<u64> {
    let token = |text: &Bytes| std::str::from_utf8(text).ok()?.parse().ok();
    match (deed.what, reply) {
        (What::Acquire, Frame::Bulk(_stamp)) => deed.argv.get(2).and_then(token),
        (What::Acquire | What::Wait | What::Repair, Frame::Array(items)) => match &items[1..] {
            [Frame::Bulk(word), Frame::Integer(token), ..] => {
                matches!(&word[..], b"granted" | b"seized").then_some(u64::try_from(*token).ok()?)
            }
            _ => None,
        },
        (What::Set, Frame::Simple(_)) => (!deed.locks.is_empty()).then_some(0),
        _ => None,
    }
}

/// Whether by its reply a server has the lease of the lock at this index.
pub(super) fn is_kept(reply: &Frame, lock: usize) -> bool {
    match reply {
        Frame::Array(kept) => kept.get(1 + lock) == Some(&Frame::Integer(1)),
        reply => matches!(reply, Frame::Bulk(_)),
    }
}
