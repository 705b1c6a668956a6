//! The rules for replies that known bugs of tests break: tests compile `mutated.rs` instead of this file.

use bytes::BytesMut;
use leasehold_resp::Frame;

use crate::policy::Moment;

/// What a reply in its place says of those before it.
#[derive(Clone, Copy)]
pub(in crate::machine) enum Standing {
    Proves,
    Pends,
}

/// Whether an answer to the question of this round says anything of the present one.
pub(super) fn is_of_round(present: u32, round: u32) -> bool {
    present == round
}

/// Whether the answer to a question says all of what a server has. What the owner has already, or is given by a question
/// before, stays, whatever the server says of a later proposal.
pub(super) fn says_all(is_first: bool) -> bool {
    is_first
}

/// Whether a question without an answer may have been granted.
pub(super) fn may_be_granted() -> bool {
    true
}

/// Whether a refused release goes out before it is due, once its server carries out another write.
pub(super) fn goes_again(may_serve: bool) -> bool {
    may_serve
}

/// Whether releases go out together, with this number of commands under way: then the server's time counts most.
pub(super) fn gathers(in_flight: usize) -> bool {
    in_flight >= 8
}

/// Whether a release among others freed its lock.
pub(super) fn is_freed(is_so: bool) -> bool {
    is_so
}

/// Whether a lock is granted, as the reign of its server stands.
#[cfg(any(test, feature = "grace"))]
pub(super) fn is_granted(grants: bool) -> bool {
    grants
}

/// Whether a release hands the lock on, as the reign stands.
#[cfg(any(test, feature = "grace"))]
pub(super) fn hands_on(is_open: bool) -> bool {
    is_open
}

/// Whether a lease is gone, as a server says of whose reign this is heard.
#[cfg(any(test, feature = "grace"))]
pub(super) fn is_gone(is_heard: bool) -> bool {
    is_heard
}

/// Whether a lock was its owner's still when the token was minted, as the server says behind that.
#[cfg(any(test, feature = "scriptless"))]
pub(super) fn is_proved(is_its: bool) -> bool {
    is_its
}

/// Whether servers that name these nodes are of one Cluster.
#[cfg(any(test, feature = "cluster"))]
pub(super) fn share_a_node<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    some.iter().any(|node| others.contains(node))
}

/// Since when a reply is waited for: nothing else that comes is a sign of life.
pub(super) fn waited_since(sent_at: Moment, _now: Moment) -> Moment {
    sent_at
}

/// Whether something is passed over that answers nothing.
pub(super) fn is_let_pass() -> bool {
    false
}

/// How a reply stands in its place, which is that of a stamp or another, and may be a wrong one.
pub(super) fn standing<F>(
    _is_of_stamp: bool,
    _frame: &Frame,
    standing: Result<Standing, F>,
    _is_wrong: bool,
) -> Result<Standing, F> {
    standing
}

/// Whether something came, and is no reason to end the connection.
pub(super) fn heard<F>(
    heard: Result<bool, F>,
    _bytes: &mut BytesMut,
    _is_behind_proved: bool,
) -> Result<bool, F> {
    heard
}
