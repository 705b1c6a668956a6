//! Commands about many leases: on each connection in one write.

use std::sync::Arc;
use std::time::Duration;

use super::answer::Reason;
use super::asked::{Replied, reply_to};
use super::follow::follow;
use super::hold::Hold;
use crate::net::connection::Connection;
use crate::server::call::Call;
use crate::server::command::Command;

/// A lease, by its number, and one of its servers.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) member: usize,
    pub(super) server: usize,
}

/// Leases that are on one connection.
pub(super) struct Group {
    pub(super) connection: Arc<Connection>,
    pub(super) shares: Vec<Share>,
}

/// The leases on each connection, and those that have none now.
pub(super) fn grouped(
    shares: impl Iterator<Item = (Share, Option<Arc<Connection>>)>,
) -> (Vec<Group>, Vec<Share>) {
    let (mut groups, mut unreachable) = (Vec::<Group>::new(), Vec::new());
    for (share, connection) in shares {
        let Some(connection) = connection else {
            unreachable.push(share);
            continue;
        };
        match groups.iter_mut().find(|group| Arc::ptr_eq(&group.connection, &connection)) {
            Some(group) => group.shares.push(share),
            None => groups.push(Group { connection, shares: vec![share] }),
        }
    }
    (groups, unreachable)
}

/// What is said to one of the commands; by another server, where the one that was asked sends it on. Nothing
/// else is waited for: others are behind it.
pub(super) async fn replied(
    hold: &Hold,
    server: usize,
    command: Command<'_>,
    call: Call<'_>,
) -> Result<Replied, Reason> {
    let connection = Arc::clone(call.connection());
    match reply_to(call).await {
        Err(Reason::Refused(error)) => {
            connection.note_refused(error.clone());
            follow(hold, server, command, error, Duration::ZERO, &mut None).await
        }
        reply => reply,
    }
}
