//! Until when an answer is of use to the caller.
//!
//! Every question carries its limit, and what waits for answers (`fanout::ask_all`, and an attempt at the
//! server that decides alone) ends at it: so nothing that a question leads to (a connection, room on
//! it, a redirect, a second proposal) can keep a caller longer. What is under way then is given back
//! by its claim.

use std::time::Duration;

use tokio::time::sleep;

use super::core::Core;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::policy::{Moment, alarm};

#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The caller waits for as long as servers take.
    None,
    /// The caller is back by then.
    At(Moment),
    /// The same for a caller of one try: where the last dial of the server failed, that is the answer.
    Try(Moment),
    /// A command's time, from when the question is put.
    OneCommand,
}

impl Limit {
    /// Whether it has passed: nothing is asked any more.
    pub(super) fn is_over(self) -> bool {
        self.ends_at().is_some_and(|end| clock::now() >= end)
    }

    /// When the caller is back at the latest; none where the caller waits for as long as servers take.
    pub(super) fn ends_at(self) -> Option<Moment> {
        if let Self::At(end) | Self::Try(end) = self { Some(end) } else { None }
    }

    /// How long may be waited where it would be `patience` otherwise.
    pub(super) fn cap(self, patience: Duration) -> Duration {
        self.ends_at().map_or(patience, |end| patience.min(end.since(clock::now())))
    }

    /// What ends a wait for answers that its connections, which count from `asked_at`, do not end in time.
    pub(super) fn timer(
        self,
        core: &Core,
        asked_at: Option<Moment>,
        command_max: Duration,
    ) -> Option<BoxFuture<'static, ()>> {
        if matches!(self, Self::None) {
            return None;
        }
        let asked_at = asked_at.filter(|_| core.runs_beside_caller());
        let left = alarm(self.ends_at(), asked_at, command_max, clock::now)?;
        Some(Box::pin(sleep(left)))
    }
}
