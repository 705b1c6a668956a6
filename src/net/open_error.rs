//! Why a handshake brought no connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_resp::DecodeError;

use crate::error::FailureKind;
use crate::net::fault::Fault;
use crate::net::refusal::ServerError;
#[cfg(feature = "tls")]
use crate::net::tls::TlsFault;
use crate::net::transport::Address;
use crate::policy::Units;

/// What a server of TLS begins its answer with to a client that does not speak TLS.
const TLS_ALERT: u8 = 0x15;

/// Why there is no usable connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// Dial and handshake together took too long.
    #[error("could not connect within {}", Units(*.0))]
    Timeout(Duration),
    /// The server answered what was said before the scripts, and not them.
    #[error(
        "the server answered HELLO but not SCRIPT LOAD within {}: a slow script or CLIENT PAUSE holds it \
         up (end it by SCRIPT KILL or CLIENT UNPAUSE), or it was demoted (give its successor too)",
        Units(*.0)
    )]
    ScriptsHeldUp(Duration),
    /// The system gives us no socket.
    #[error("cannot connect: {0}")]
    Dial(Arc<io::Error>),
    /// The provider of credentials gave none: what it did instead.
    #[cfg(any(test, feature = "credentials"))]
    #[error("the credentials provider {0}")]
    NoCredentials(Arc<str>),
    /// There is a socket, and no TLS on it.
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Tls(TlsFault),
    /// The server is to be met over TLS, and there is nothing here that could.
    #[error("TLS needs the feature `tls`: build leasehold with it")]
    NoTls,
    /// The server speaks TLS, and we did not.
    #[error("the server speaks TLS on this port: use rediss://")]
    WantsTls,
    /// The server may speak TLS, and we did not; or be about to end.
    #[error(
        "the server closed the connection during the handshake ({0}): \
         if it speaks TLS on this port, use rediss://; if it is a proxy that closes at commands that it does not know, \
         such as twemproxy, give a server's own address"
    )]
    HungUp(Fault),
    /// What answers is another kind of server, such as one for the web.
    #[error("no Redis answers on this port ({0}): give the address of a Redis or Valkey server")]
    NotRedis(DecodeError),
    /// There is none yet.
    #[error("not connected yet")]
    Connecting,
    /// The runtime that was to keep the connection has ended.
    #[error(
        "the tokio runtime on which this locker connected has ended: connect again on this one"
    )]
    RuntimeGone,
    /// The connection broke, in the handshake or later.
    #[error("the connection broke: {0}")]
    Broken(Fault),
    /// The server refused a step of the handshake.
    #[error("the server refused {step}: {error}")]
    Refused {
        /// The step.
        step: &'static str,
        /// Its words.
        error: ServerError,
    },
    /// A node of a Cluster does not say which master serves which slot.
    #[cfg(any(test, feature = "cluster"))]
    #[error("{0}")]
    Topology(String),
    /// The server answered a step with something else than that step's reply.
    #[error("the server sent a reply to {step} that this command cannot have")]
    Unexpected {
        /// The step.
        step: &'static str,
    },
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        let objection = match &fault {
            // In TLS 1.3 a server refuses our certificate when we believe that all is agreed.
            Fault::Io(error) => Self::of_tls(error),
            Fault::Decode(DecodeError::UnknownType(TLS_ALERT)) => Some(Self::WantsTls),
            Fault::Decode(error @ DecodeError::UnknownType(_)) => Some(Self::NotRedis(*error)),
            _ => None,
        };
        objection.unwrap_or(Self::Broken(fault))
    }
}

impl OpenError {
    pub(crate) fn of_dial(error: io::Error) -> Self {
        Self::of_tls(&error).unwrap_or_else(|| Self::Dial(Arc::new(error)))
    }

    /// What to say of several addresses, none of which serves: what a server said, or that none could be dialled.
    pub(crate) fn of_all(failed: &mut dyn Iterator<Item = (Option<SocketAddr>, Self)>) -> Self {
        let (mut kind, mut tried) = (io::ErrorKind::NotFound, String::new());
        for (at, error) in failed {
            let (Some(at), Self::Dial(error)) = (at, &error) else { return error };
            kind = error.kind();
            let comma = if tried.is_empty() { "" } else { ", " };
            tried += &format!("{comma}{}: {error}", Address::from(at));
        }
        Self::of_dial(io::Error::new(kind, tried))
    }

    /// The party at fault, and whether trying again can help.
    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::Refused { error, .. } => error.kind(),
            Self::RuntimeGone | Self::NoTls | Self::WantsTls => FailureKind::Misuse,
            #[cfg(feature = "tls")]
            Self::Tls(fault) => kind_of_tls(fault),
            _ => FailureKind::Unavailable,
        }
    }

    /// Many servers of TLS just hang up on a client that does not speak TLS.
    pub(crate) fn or_tls_expected(self, may_be_tls: bool) -> Self {
        match self {
            Self::Broken(fault @ (Fault::ClosedByServer | Fault::Io(_))) if may_be_tls => {
                Self::HungUp(fault)
            }
            other => other,
        }
    }

    #[cfg(feature = "tls")]
    fn of_tls(error: &io::Error) -> Option<Self> {
        TlsFault::inside(error).cloned().map(Self::Tls)
    }

    #[cfg(not(feature = "tls"))]
    fn of_tls(_: &io::Error) -> Option<Self> {
        None
    }
}

/// Certificates do not get better by waiting, but a server that is silent may speak again.
#[cfg(feature = "tls")]
fn kind_of_tls(fault: &TlsFault) -> FailureKind {
    match fault {
        fault if fault.is_about_identity() => FailureKind::Auth,
        TlsFault::Silent(_) => FailureKind::Unavailable,
        _ => FailureKind::Misuse,
    }
}
