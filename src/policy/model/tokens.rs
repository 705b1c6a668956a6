//! The promise of tokens, as models check it: each is above all that were issued before it was requested, and they rise
//! in the order in which the lock was taken.

/// A token that was issued.
#[derive(Clone, Copy)]
pub(super) struct Issued {
    pub(super) token: u8,
    /// The largest token that had been issued when this one was requested.
    pub(super) floor: u8,
    /// The place of its owner in the order in which the lock was taken.
    pub(super) taken: u8,
}

pub(super) fn breach(issued: &(impl Iterator<Item = Issued> + Clone)) -> Option<&'static str> {
    for one in issued.clone() {
        if one.token <= one.floor {
            return Some("a token is not above one that was issued before it was asked for");
        }
        for other in issued.clone().filter(|other| other.taken > one.taken) {
            if other.token == one.token {
                return Some("a token is issued twice");
            }
            if other.token < one.token {
                return Some("who took the lock later has the smaller token");
            }
        }
    }
    None
}
