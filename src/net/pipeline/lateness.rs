//! Replies that do not come: which commands have waited too long, and when the connection has to end.

use super::Pipeline;
use super::patience::{Patience, Sweep};
use super::slots::Holder;
use crate::net::outcome::{Failure, Fault};
use crate::policy::Moment;

impl<W: Clone> Pipeline<W> {
    /// A part of a frame came, and no whole one.
    pub fn note_part(&mut self, is_push: bool) {
        if is_push {
            self.pushed = true;
        } else {
            self.stirred = true;
        }
    }

    /// Settles what has waited too long (its place in the queue stays), and finds out whether the
    /// connection is dead, as [`Patience`] says.
    pub fn sweep(&mut self, now: Moment, patience: Patience, woken: &mut Vec<W>) -> Sweep {
        let stirred = std::mem::take(&mut self.stirred);
        if stirred {
            self.silent_since = now;
            (self.pushed, self.asked) = (false, false);
        }
        if self.waiting.is_empty() && self.seals.is_empty() {
            self.sweeping = stirred;
            return if stirred { Sweep::Busy } else { Sweep::Idle };
        }
        for &index in &self.waiting {
            let slot = &mut self.slots[index];
            if slot.deadline > now {
                continue;
            }
            if let Holder::Waits(waker) = &mut slot.holder {
                woken.extend(waker.take());
                let waited = slot.deadline.since(slot.asked_at);
                slot.holder = Holder::Settled(Err(Failure::Unknown(patience.late(waited))));
            }
        }
        let silent_for = now.since(self.silent_since);
        let is_late = silent_for >= patience.until_late;
        if is_late && self.pushed {
            return Sweep::Dead(Fault::OnlyPushes(silent_for));
        }
        if silent_for >= patience.until_dead {
            return Sweep::Dead(Fault::Silent(silent_for));
        }
        if is_late && !std::mem::replace(&mut self.asked, true) {
            self.ask();
            return Sweep::Asks;
        }
        Sweep::Busy
    }
}
