//! Failures of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_resp::DecodeError;

use crate::policy::Units;

/// Why a command has no reply.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The server did not answer one command in time; the connection may still be good.
    #[error("the server did not reply within {:.1}", Units(*.0))]
    Timeout(Duration),
    /// As `Timeout`, and the greeting took nearly as long.
    #[error(
        "the server did not reply within {:.1}, and its greeting took {:.1}: if it is far away, raise the command \
         timeout (Builder::command_timeout, --command-timeout)", Units(*.within), Units(*.greeting)
    )]
    TooFar {
        /// The timeout.
        within: Duration,
        /// How long the first reply of the handshake took.
        greeting: Duration,
    },
    /// The server read and wrote nothing for this long, and the connection was given up.
    #[error("the server sent nothing for {} while commands waited", Units(*.0))]
    Silent(Duration),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    ClosedByServer,
    /// The operating system reported an error of the socket.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// The server sent bytes that are not its protocol.
    #[error("the server broke the protocol: {0}")]
    Decode(#[from] DecodeError),
    /// A reply was lost or inserted on the way, so no reply can be matched any more.
    #[error("the server's replies do not match the commands that wait for them")]
    Misplaced,
    /// A reply of the wrong form for its command.
    #[cfg(any(test, feature = "_interviews"))]
    #[error("the server sent a reply that the command cannot have")]
    Unexpected,
}

impl Fault {
    /// The fault if no reply came within this time, after a greeting of this length.
    pub(crate) fn of_late(within: Duration, greeting: Duration) -> Self {
        // A command takes a round trip, as the greeting did.
        let is_far = !greeting.is_zero() && greeting >= within / 4 * 3;
        if is_far { Self::TooFar { within, greeting } } else { Self::Timeout(within) }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
