//! Asking servers, and hearing of changes there, by the engine.

use std::pin::pin;
use std::sync::Arc;

use leasehold_resp::Frame;

use super::purpose;
use crate::clock;
use crate::front::Front;
use crate::lock::ask::note;
use crate::lock::engine::Engine;
use crate::lock::errand::{self, Errand};
use crate::names::Names;
use crate::net::reason::Reason;
use crate::policy::Verdict;
use crate::race::race;
use crate::server::command::Command;
use crate::server::script::Script;
use crate::server::watch;

/// What an answer is wanted for.
pub(crate) type Purpose<'a> = purpose::Purpose<&'a Watch>;

/// One key that may change, of one caller that waits for that.
pub(crate) struct Watch {
    engine: Arc<Engine>,
    watch: watch::Watch,
    slot: u16,
}

/// Whether a reply is the question's stamp alone, which has been seen to.
pub(super) fn is_stamp(reply: &Frame) -> bool {
    matches!(reply, Frame::Integer(_))
}

impl Engine {
    pub(super) fn servers(&self) -> usize {
        self.places().len()
    }

    /// Of the server that has this name.
    pub(super) fn address(&self, server: usize, names: &Names) -> String {
        let place = &self.places()[server];
        place.node(place.slot(names.lock())).endpoint().address.to_string()
    }

    /// What `read` makes of a server's reply.
    pub(super) async fn ask<T>(
        &self,
        server: usize,
        names: &Names,
        purpose: Purpose<'_>,
        (script, parameters): (&Script, &[&[u8]]),
        read: impl FnOnce(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        let place = &self.places()[server];
        let slot = place.slot(names.lock());
        let (purpose, command) = match purpose {
            // A user that only looks needs no right to call a script by its digest.
            #[cfg(feature = "inspect")]
            Purpose::Look => (errand::Purpose::Look, Command::Whole(script, parameters)),
            Purpose::Act => (errand::Purpose::Act, Command::Script(script, parameters)),
            Purpose::Watch(_) => (errand::Purpose::Watch, Command::Script(script, parameters)),
        };
        let errand = Errand { place, slot, purpose, command };
        if self.servers() == 1 {
            return self.in_time(errand.ask(read)).await;
        }
        // Of several, one that does not answer is left out for a while.
        let node = place.node(slot);
        node.gate().admit().map_err(Reason::BreakerOpen)?;
        let answer = self.in_time(errand.ask(read)).await;
        note(&node, answer.as_ref().err(), clock::now());
        answer
    }
}

impl Watch {
    pub(super) fn new(engine: &Front, names: &Names, key: &[u8]) -> Self {
        let (watch, slot) = (engine.watchers().watch(key), engine.places()[0].slot(names.lock()));
        Self { engine: Arc::clone(engine), watch, slot }
    }

    /// From here on a change counts.
    pub(super) fn rearm(&self) {
        self.watch.rearm();
    }

    /// Whether a quorum tells of changes.
    pub(super) fn is_told(&self) -> bool {
        let watching = self.engine.places().iter().map(|place| place.node(self.slot));
        let watching = watching.filter(|node| node.is_watching()).count();
        self.engine.quorum().verdict(watching, 0) == Verdict::Won
    }

    /// Waits until the key may have changed, or the locker is shut down.
    pub(super) async fn stirred(&self) {
        race(pin!(self.watch.stirred()), pin!(self.engine.closed())).await;
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.engine.is_shut_down()
    }
}
