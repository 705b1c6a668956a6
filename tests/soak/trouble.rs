//! A fault that lasts, and how it ends.

use crate::history::At;

pub(crate) struct Trouble {
    pub(crate) server: usize,
    /// Which way to the server it is in; none where it is the server itself.
    pub(crate) way: Option<usize>,
    pub(crate) ends: At,
    pub(crate) cure: Cure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    Restart {
        killed_at: At,
        empty: bool,
    },
    /// SIGCONT.
    Continue,
    Pass,
    /// Pass, after the connections that lost bytes have ended.
    Reopen,
    Accept,
    /// Time: the restart quarantine lets it vote again.
    VotesAgain,
}

impl Trouble {
    /// Whether another trouble there would get into the way of this one.
    pub(crate) fn meets(&self, server: usize, way: Option<usize>) -> bool {
        self.server == server && self.way == way && self.cure != Cure::VotesAgain
    }

    /// Whether the server answers nobody.
    pub(crate) fn stops_server(&self) -> bool {
        matches!(self.cure, Cure::Restart { .. } | Cure::Continue)
    }
}
