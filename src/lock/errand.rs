//! One question about one key, to the server that has the key now, from a caller that holds no lease.

use std::sync::Arc;

use leasehold_resp::Frame;

use super::answer::Reason;
use super::asked::{Replied, ask, reply_to};
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
#[cfg(feature = "inspect")]
use crate::policy::fitness::Refusal;
use crate::server::call::Call;
use crate::server::command::Command;
use crate::server::node::{LEASES, Node, WATCH};
use crate::server::place::{Detour, Place};

/// Maximum redirects of one question: after these, nodes send it in a circle.
const DETOURS_MAX: u32 = 8;

/// What an answer is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To show it. A server that may have forgotten leases is asked too.
    #[cfg(feature = "inspect")]
    Look,
    /// To act on it. A server that may not vote is not asked.
    Act,
    /// As [`Purpose::Act`], on the connection that hears of changes to what is read.
    Watch,
}

/// A question, the part of the key space that it is about, and what its answer is wanted for.
#[derive(Clone, Copy)]
pub(crate) struct Errand<'a> {
    pub(crate) place: &'a Place,
    pub(crate) slot: u16,
    pub(crate) purpose: Purpose,
    pub(crate) command: Command<'a>,
}

/// A question that is on its way, and the server that it was sent to.
pub(super) type Begun<'a> = Result<(Arc<Node>, Call<'a>), Reason>;

impl<'a> Errand<'a> {
    /// What `read` makes of the reply.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the question may have been sent.
    pub(crate) async fn ask<T>(self, read: impl FnOnce(&Frame) -> Option<T>) -> Result<T, Reason> {
        self.run().await?.read(read)
    }

    /// The reply.
    pub(super) async fn run(self) -> Result<Replied, Reason> {
        let begun = self.begin(|_| None).await;
        self.settle(begun).await
    }

    /// Sends it, on the connection that is `known` to the server, if any.
    pub(super) async fn begin(
        self,
        known: impl FnOnce(&Node) -> Option<Arc<Connection>>,
    ) -> Begun<'a> {
        let Self { place, slot, purpose, command } = self;
        let node = place.node(slot);
        let connected = match known(&node) {
            Some(connection) => Ok(connection),
            None => connected(&node, purpose).await,
        };
        let connection = connected.inspect_err(|_| place.look_again())?;
        let call = Call::begin(&connection, command).await.map_err(Reason::NoReply)?;
        Ok((node, call))
    }

    /// The reply, from the server that has the key.
    pub(super) async fn settle(self, begun: Begun<'_>) -> Result<Replied, Reason> {
        let (mut node, call) = begun?;
        let mut reply = reply_to(call).await;
        let Some(directory) = self.place.directory() else { return reply };
        for _ in 0..DETOURS_MAX {
            let Err(Reason::Refused(refused)) = &reply else { return reply };
            let Some(detour) = directory.detour(refused, &node.endpoint().address) else {
                return reply;
            };
            reply = self.ask_at(&detour).await;
            node = detour.node;
        }
        match reply {
            Err(Reason::Refused(refused)) => Err(Reason::Unsettled(refused)),
            reply => reply,
        }
    }

    async fn ask_at(self, Detour { node, is_asking }: &Detour) -> Result<Replied, Reason> {
        let connection = connected(node, self.purpose).await?;
        ask(self.command, &connection, *is_asking, &mut None).await
    }
}

/// A connection to a server that is what it was taken for. One that is away is not waited for.
pub(super) async fn connected(node: &Node, purpose: Purpose) -> Result<Arc<Connection>, Reason> {
    let lane = match purpose {
        Purpose::Watch => WATCH,
        _ => LEASES,
    };
    let connection = match node.connection_now(lane) {
        Err(OpenError::Connecting) => node.connection(lane).await,
        known => known,
    };
    let connection = connection.map_err(Reason::NoConnection)?;
    match node.check(lane) {
        // What the server has not forgotten counts: see `look::quarantine`.
        #[cfg(feature = "inspect")]
        Err(refusal) if purpose == Purpose::Look && !matches!(refusal, Refusal::Unfit(_)) => {
            Ok(connection)
        }
        Err(refusal) => Err(Reason::Refusal(refusal)),
        Ok(()) => Ok(connection),
    }
}
