//! Commands about locks from outside.

use std::future::poll_fn;
#[cfg(feature = "cluster")]
use std::sync::Arc;
use std::sync::Mutex;
use std::task::Poll;

use leasehold_resp::Frame;

use crate::api::{Call, Locker};
use crate::clock;
#[cfg(feature = "cluster")]
use crate::cluster::{map::served_by, slot::SLOTS};
use crate::machine::{self, Script};
use crate::mutex::lock;
use crate::names::Names;
#[cfg(feature = "cluster")]
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::scripts;

/// A server to send commands to.
#[derive(Clone)]
pub(crate) struct Spot {
    locker: Locker,
    at: At,
}

/// Which server.
#[derive(Clone)]
enum At {
    /// The server of this vote; in a Cluster, the node of this slot.
    Vote(usize, u16),
    /// The server at this address on this link, which may lead to another once the map has changed.
    #[cfg(feature = "cluster")]
    Link(usize, Arc<str>),
}

impl Spot {
    /// The number of votes.
    pub(crate) fn count(locker: &Locker) -> usize {
        locker.driver.votes()
    }

    /// The server of this vote for this key.
    pub(crate) fn of(locker: &Locker, vote: usize, key: &[u8]) -> Self {
        Self { locker: locker.clone(), at: At::Vote(vote, locker.driver.slot_of(key)) }
    }

    /// All servers, each with the index of its vote.
    pub(crate) fn all(locker: &Locker) -> Vec<(usize, Self)> {
        #[cfg(feature = "cluster")]
        if locker.driver.is_cluster() {
            let at = |link| At::Link(link, locker.driver.address(link).into());
            let spot = |link| Self { locker: locker.clone(), at: at(link) };
            return locker.driver.links().into_iter().map(|link| (0, spot(link))).collect();
        }
        (0..Self::count(locker)).map(|vote| (vote, Self::of(locker, vote, b""))).collect()
    }

    /// Keys of the same part can be in one command.
    pub(crate) fn part(&self) -> u16 {
        match self.at {
            At::Vote(_, slot) => slot,
            #[cfg(feature = "cluster")]
            At::Link(..) => 0,
        }
    }

    /// The link to this server.
    fn link(&self) -> usize {
        match self.at {
            At::Vote(vote, slot) => self.locker.driver.link_of(vote, slot),
            #[cfg(feature = "cluster")]
            At::Link(link, _) => link,
        }
    }

    pub(crate) fn address(&self) -> String {
        #[cfg(feature = "cluster")]
        if let At::Link(_, address) = &self.at {
            return address.to_string();
        }
        self.locker.driver.address(self.link())
    }

    /// What each node of a Cluster serves, by [`served_by`].
    ///
    /// # Errors
    ///
    /// The node without an answer, or with other slots than before; also if a slot moves, or no node serves it.
    #[cfg(feature = "cluster")]
    pub(super) async fn served(
        locker: &Locker,
        before: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, (Self, Reason)> {
        let (mut served, mut slots, nodes) = (Vec::new(), 0, Self::all(locker));
        let last = nodes.len();
        for (_, node) in nodes {
            let read = |reply: &Frame| Some(served_by(reply.as_bytes()?));
            // None for a node whose slots move.
            let (words, own) = match node.ask(None, None, &[b"CLUSTER", b"NODES"], &[], read).await
            {
                Ok(said) => said.unwrap_or_default(),
                Err(reason) => return Err((node, reason)),
            };
            slots += own;
            let has_changed = before.get(served.len()).is_some_and(|before| *before != words);
            served.push(words);
            if has_changed || served.len() == last && slots != SLOTS {
                let moved = "a slot has moved between nodes, or none serves it".to_owned();
                return Err((node, Reason::NoConnection(OpenError::Topology(moved))));
            }
        }
        Ok(served)
    }

    /// Why this server may have forgotten leases that still run, if so.
    pub(crate) fn quarantine(&self) -> Option<Reason> {
        let link = self.link();
        let wait = self.locker.driver.look(|machine| machine.votes_in(link, clock::now()));
        wait.map(Reason::Quarantined)
    }

    /// Runs a script with these keys and further words, or without a script the command `keys`, and returns what `read`
    /// makes of the reply. A watcher then notices the next change to the first key.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the command may have been sent.
    pub(crate) async fn ask<T>(
        &self,
        watcher: Option<&Watcher>,
        script: Option<&Script>,
        keys: &[&[u8]],
        words: &[&[u8]],
        read: impl FnOnce(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        let owned = |words: &[&[u8]]| words.iter().map(|&word| word.into()).collect();
        let is = |known: Script| script.is_some_and(|script| script.digest == known.digest);
        // The other scripts only read.
        let ends_a_lease = is(scripts::RELEASE);
        let question = machine::Call {
            script: script.copied(),
            // So rare that no server has the script cached.
            is_whole: is(scripts::INSPECT),
            keys: owned(keys),
            words: owned(words),
            acts: false,
            changes: if ends_a_lease { |_| true } else { |_| false },
            watched: watcher.map(|_| 0),
        };
        let mut call = match self.at {
            At::Vote(vote, _) => self.locker.call(vote, question),
            #[cfg(feature = "cluster")]
            At::Link(link, _) => self.locker.call_at(link, question),
        };
        let reply = call.reply().await;
        #[cfg(feature = "cluster")]
        if let At::Link(link, address) = &self.at {
            if self.locker.driver.address(*link) != **address {
                let gone = "it serves no slot of the Cluster any more".to_owned();
                return Err(Reason::NoConnection(OpenError::Topology(gone)));
            }
        }
        if let Some(watcher) = watcher {
            lock(&watcher.calls).push(call);
        }
        read(&reply?).ok_or(Reason::Unexpected)
    }
}

/// Notices changes to one lock on the connections of leases, also those by the machine's own commands.
pub(crate) struct Watcher {
    locker: Locker,
    /// The calls since [`Watcher::rearm`].
    calls: Mutex<Vec<Call>>,
}

impl Watcher {
    pub(crate) fn new(locker: &Locker, _names: &Names) -> Self {
        Self { locker: locker.clone(), calls: Mutex::default() }
    }

    /// Begins again: changes from here on count.
    pub(crate) fn rearm(&mut self) {
        drop(std::mem::take(&mut *lock(&self.calls)));
    }

    /// Whether all servers push changes to what was read since.
    pub(crate) fn is_told(&self) -> bool {
        let calls = lock(&self.calls);
        calls.len() == Spot::count(&self.locker) && calls.iter().all(Call::is_told)
    }

    /// Waits until the lock may have changed.
    pub(crate) async fn stirred(&self) {
        poll_fn(|context| {
            match lock(&self.calls).iter().any(|it| it.poll_news(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Waits until the locker is shut down.
    pub(crate) async fn closed(&self) {
        poll_fn(|context| {
            // A shutdown wakes all of them.
            for call in lock(&self.calls).iter() {
                let _ = call.poll_news(context);
            }
            if self.locker.is_closed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests;
