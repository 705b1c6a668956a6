//! Replies that do not come: who has waited too long, and when the connection has to end.

use std::time::Duration;

use super::Pipeline;
use super::slots::Holder;
use crate::net::outcome::{Failure, Fault};
use crate::policy::Moment;

/// What a sweep found.
#[derive(Debug)]
pub enum Sweep {
    /// Commands are under way: sweep again.
    Busy,
    /// Commands are under way, and the first of them is late: a seal was pushed behind them, to be
    /// committed. Sweep again.
    Asks,
    /// Nothing was under way since the last sweep: no more sweeps until a push asks for them.
    Idle,
    /// No reply came for too long.
    Dead(Fault),
}

/// How long the first of those that wait may go without a reply, or a part of one.
///
/// A reply that was lost with nothing sent behind it looks like a server that is slow. So who is late
/// is asked for a seal: a server that answers that, and not what was before, has lost a reply, which
/// ends the connection; a server that is only slow answers both. No answer at all is borne for
/// longer, because all that is in flight is unknown when a connection ends, and a server that has
/// paused is not helped by all its clients coming anew. But one that sends pushes meanwhile has not
/// paused.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Then it is late: the connection ends if pushes came meanwhile, else the server is asked.
    pub until_late: Duration,
    /// Then the connection ends.
    pub until_dead: Duration,
}

impl Patience {
    /// For ever.
    pub const ENDLESS: Self = Self { until_late: Duration::MAX, until_dead: Duration::MAX };
}

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
                slot.holder = Holder::Settled(Err(Failure::Unknown(Fault::Timeout(waited))));
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
