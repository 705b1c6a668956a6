//! Which queue a waiter enters, if there is one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::names::Names;
use super::order::Wish;
use super::outlook::Outlook;
use crate::race::timeout;
use crate::server::channel::Channel;

/// The queue of a lock.
pub(super) struct Queue {
    /// The server that has it.
    pub(super) server: usize,
    /// On which that server hands the lock over.
    pub(super) channel: Channel,
    /// How long that server may take to answer.
    pub(super) patience: Duration,
}

impl Queue {
    /// That of the one server, or of the leader that is none of those that are `shunned`; none where the
    /// process hears nothing there, and for requests whose attempts are counted or awaited by replicas.
    pub(super) async fn of(
        engine: &Arc<Engine>,
        wish: &Wish,
        names: &Names,
        outlook: &Outlook,
        shunned: &[usize],
    ) -> Option<Self> {
        if !wish.may_queue() {
            return None;
        }
        let known = outlook.known.as_ref();
        let slowest = known.map_or(Duration::ZERO, |known| known.round.slowest_answer());
        let leader = engine.leader(names.lock(), slowest, shunned);
        let server = leader.as_ref().map_or(0, |leader| leader.server);
        let node = engine.nodes_for(names).nth(server)?;
        // Of several servers none is waited for that the others can do without.
        let (patience, connect_max) = match leader {
            Some(leader) => (leader.patience, leader.patience),
            None => (engine.command_max(), Duration::MAX),
        };
        let connecting = node.connection(node.watch_lane());
        timeout(outlook.limit().cap(connect_max), pin!(connecting)).await.ok()?.ok()?;
        Some(Self { server, channel: node.channel()?, patience })
    }
}
