//! The servers, as those ask them that look at locks from outside: `locker/spot.rs` has the same on the machine.

use std::sync::Arc;

use leasehold_resp::Frame;

use super::answer::Reason;
use super::asked::reply_to;
use super::engine::Engine;
use super::errand::{Errand, Purpose, connected};
use super::names::Names;
use crate::policy::fitness::Refusal;
use crate::server::call::Call;
use crate::server::command::Command;
use crate::server::lookout::Lookout;
use crate::server::node::{LEASES, Node};
use crate::server::script::Script;
use crate::server::watch::Watch;

/// A server that is asked.
#[derive(Clone)]
pub(crate) struct Spot {
    engine: Arc<Engine>,
    at: At,
}

#[derive(Clone)]
enum At {
    /// Of the place of this number, whichever has this slot.
    Slot(usize, u16),
    Node(Arc<Node>),
}

impl Spot {
    /// How many servers have a vote.
    pub(crate) fn count(engine: &Arc<Engine>) -> usize {
        engine.places().len()
    }

    /// The one with this vote, for this key.
    pub(crate) fn of(engine: &Arc<Engine>, vote: usize, key: &[u8]) -> Self {
        let at = At::Slot(vote, engine.places()[vote].slot(key));
        Self { engine: Arc::clone(engine), at }
    }

    /// All servers that have keys, each with the number of its vote.
    pub(crate) fn all(engine: &Arc<Engine>) -> Vec<(usize, Self)> {
        let spot = |node| Self { engine: Arc::clone(engine), at: At::Node(node) };
        let places = engine.places().iter().enumerate();
        places
            .flat_map(|(vote, place)| place.nodes().into_iter().map(move |node| (vote, spot(node))))
            .collect()
    }

    /// Keys in the same part can be asked for at once.
    pub(crate) fn part(&self) -> u16 {
        match self.at {
            At::Slot(_, slot) => slot,
            At::Node(_) => 0,
        }
    }

    fn node(&self) -> Arc<Node> {
        match &self.at {
            At::Slot(vote, slot) => self.engine.places()[*vote].node(*slot),
            At::Node(node) => Arc::clone(node),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.node().endpoint().address.to_string()
    }

    /// Why it may have forgotten leases that still run, if so.
    pub(crate) fn quarantine(&self) -> Option<Reason> {
        let refusal = self.node().check(LEASES).err();
        refusal.filter(|why| matches!(why, Refusal::Quarantined(_))).map(Reason::Refusal)
    }

    /// What `read` makes of the reply to a script with these keys and further words; without a script, `keys` are all
    /// words of a command. A watcher hears of what happens to the keys next.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the question may have been sent.
    pub(crate) async fn ask<T>(
        &self,
        watcher: Option<&Watcher>,
        script: Option<&'static Script>,
        keys: &[&[u8]],
        words: &[&[u8]],
        read: impl FnOnce(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        let count = keys.len().to_string();
        let parameters = [&[count.as_bytes()], keys, words].concat();
        let command = match script {
            None => Command::Plain(keys),
            Some(script) => Command::Script(script, &parameters),
        };
        let replied = match &self.at {
            At::Slot(vote, slot) => {
                let (place, slot) = (&self.engine.places()[*vote], *slot);
                let errand = Errand { place, slot, purpose: Purpose::Look, command };
                let begun = errand.begin(|node| watcher?.lookout.connection(node)).await;
                errand.settle(begun).await?
            }
            At::Node(node) => {
                let connection = connected(node, Purpose::Look).await?;
                let call = Call::begin(&connection, command).await.map_err(Reason::NoReply)?;
                reply_to(call).await?
            }
        };
        replied.read(read)
    }
}

/// Hears of changes to one lock: looks go over connections of their own meanwhile, on which servers tell.
pub(crate) struct Watcher {
    engine: Arc<Engine>,
    names: Names,
    lookout: Arc<Lookout>,
    watch: Watch,
}

impl Watcher {
    pub(crate) fn new(engine: &Arc<Engine>, names: &Names) -> Self {
        let lookout = engine.lookout();
        let watch = lookout.watch(names.lock());
        Self { engine: Arc::clone(engine), names: names.clone(), lookout, watch }
    }

    /// From here on a change counts.
    pub(crate) fn rearm(&mut self) {
        self.watch.rearm();
    }

    /// Whether all servers tell of changes to what was read since.
    pub(crate) fn is_told(&self) -> bool {
        self.engine.nodes_for(&self.names).all(|node| self.lookout.is_told(&node))
    }

    /// The lock may have changed since.
    pub(crate) async fn stirred(&self) {
        self.watch.stirred().await;
    }

    /// The locker was shut down.
    pub(crate) async fn closed(&self) {
        self.engine.closed().await;
    }
}
