//! The channel on which a server hands locks to this process.
//!
//! Each connection has a channel of its own. So a push is never counted as heard that would go to a
//! connection that has ended, and a process that is connected to several nodes of a Cluster hears each
//! push once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::call;
use super::command::Command;
use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::outcome::{Failure, Fault};
use crate::net::refusal::ServerError;

/// What all channels begin with: `docs/acl.md` grants them by it.
const PREFIX: &str = "leasehold:";

/// What is said of a refusal whose words came where no reply was waited for.
const REFUSED: &[u8] = b"NOPERM the user may not SUBSCRIBE";

/// What a server's watch lane hears.
#[derive(Default)]
pub(super) struct Ear {
    channel: Mutex<Option<Channel>>,
    /// Why the server has refused a channel to the user: none is asked for again.
    refused: OnceLock<ServerError>,
    /// So it seemed once.
    was_refused: AtomicBool,
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Option<Channel>> {
        lock(&self.channel)
    }

    /// The channel that the process hears on this connection, if it hears one.
    pub(super) fn channel(&self, connection: &Arc<Connection>) -> Option<Channel> {
        self.lock().clone().filter(|channel| channel.is_of(connection))
    }

    /// Has the connection hear a channel, unless the server refuses one.
    ///
    /// # Errors
    ///
    /// The connection has ended, as it does where a channel is refused: the replies behind that are one
    /// off. The second refusal counts: one may have been a reply too many. From then on none is asked for.
    pub(super) async fn listen(&self, connection: &Arc<Connection>) -> Result<(), OpenError> {
        if !connection.is_tracking() {
            return Ok(());
        }
        if let Some(refused) = self.refused.get() {
            connection.note_refused(refused.clone());
            return Ok(());
        }
        match Channel::open(connection).await {
            Ok(channel) => {
                *self.lock() = Some(channel);
                return Ok(());
            }
            Err(Some(refused)) if self.was_refused.swap(true, Ordering::Relaxed) => {
                let rights = format!("+subscribe &{PREFIX}*");
                self.refused.get_or_init(|| refused.lacking(rights));
            }
            Err(_) => {}
        }
        connection.fail(Fault::ClosedByUs);
        Err(OpenError::Connecting)
    }
}

/// A channel that a connection is subscribed to.
#[derive(Clone)]
pub(crate) struct Channel {
    name: Arc<str>,
    connection: Weak<Connection>,
}

impl Channel {
    /// Has the server push to the connection what is published on a new channel.
    ///
    /// # Errors
    ///
    /// As of [`subscribe`].
    pub(crate) async fn open(connection: &Arc<Connection>) -> Result<Self, Option<ServerError>> {
        let name = format!("{PREFIX}{:032x}", u128::from_ne_bytes(clock::random_id()));
        subscribe(connection, &name).await?;
        Ok(Self { name: name.into(), connection: Arc::downgrade(connection) })
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    pub(crate) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        std::ptr::eq(self.connection.as_ptr(), Arc::as_ptr(connection))
    }
}

/// Has the server push to the connection what is published on a channel.
///
/// A subscription is answered by a push, and by a reply only where it is refused: then that comes in
/// the place of the next one, which is HELLO's, to which everybody has a right, and the connection ends.
///
/// # Errors
///
/// What the server has refused, it seems; none where the connection has ended otherwise.
pub(super) async fn subscribe(
    connection: &Arc<Connection>,
    channel: &str,
) -> Result<(), Option<ServerError>> {
    connection.send_unanswered(&[b"SUBSCRIBE", channel.as_bytes()]).map_err(|_| None)?;
    match call::ask(connection, Command::Plain(&[b"HELLO", b"3"])).await {
        Ok(reply) => match reply.error().map(|text| ServerError::new(text)) {
            None => Ok(()),
            Some(error) if error.text().contains("channel") => {
                Err(Some(error.lacking(format!("&{channel}"))))
            }
            Some(error) => Err(Some(error)),
        },
        Err(Failure::Unknown(Fault::Unsolicited | Fault::Misplaced | Fault::Unexpected)) => {
            Err(Some(ServerError::new(REFUSED).lacking(format!("+subscribe &{channel}"))))
        }
        Err(_) => Err(None),
    }
}
