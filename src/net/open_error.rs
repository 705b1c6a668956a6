//! Why there is no usable connection.

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

/// The first byte of a TLS server's reply to a client without TLS.
const TLS_ALERT: u8 = 0x15;

/// Why there is no usable connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// Dial and handshake together took too long.
    #[error("could not connect within {}", Units(*.0))]
    Timeout(Duration),
    /// The server replied to the commands before the scripts, but not to the scripts.
    #[error(
        "the server answered HELLO but not SCRIPT LOAD within {}: a slow script or CLIENT PAUSE holds it \
         up (end it by SCRIPT KILL or CLIENT UNPAUSE), or it was demoted (give its successor too)",
        Units(*.0)
    )]
    ScriptsHeldUp(Duration),
    /// The system could not open a socket.
    #[error("cannot connect: {0}")]
    Dial(Arc<io::Error>),
    /// The provider of credentials failed: how.
    #[cfg(any(test, feature = "credentials"))]
    #[error("the credentials provider {0}")]
    NoCredentials(Arc<str>),
    /// The socket opened, but TLS failed.
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Tls(TlsFault),
    /// The server needs TLS, and this build or locker has none.
    #[error("TLS needs the feature `tls`: build leasehold with it")]
    NoTls,
    /// The server uses TLS, and this client did not.
    #[error("the server speaks TLS on this port: use rediss://")]
    WantsTls,
    /// The server may use TLS, and this client did not; or the server is shutting down.
    #[error(
        "the server closed the connection during the handshake ({0}): \
         if it speaks TLS on this port, use rediss://; if it is a proxy that closes at commands that it does not know, \
         such as twemproxy, give a server's own address"
    )]
    HungUp(Fault),
    /// Another kind of server replied, such as a web server.
    #[error("no Redis answers on this port ({0}): give the address of a Redis or Valkey server")]
    NotRedis(DecodeError),
    /// The first dial is still under way.
    #[error("not connected yet")]
    Connecting,
    /// The runtime of the connection has ended.
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
        /// The server's error.
        error: ServerError,
    },
    /// A Cluster's node does not say which master serves which slot.
    #[cfg(any(test, feature = "cluster"))]
    #[error("{0}")]
    Topology(String),
    /// A reply of the wrong form for this step.
    #[error("the server sent a reply to {step} that this command cannot have")]
    Unexpected {
        /// The step.
        step: &'static str,
    },
}

impl From<Fault> for OpenError {
    #[inline(never)]
    fn from(fault: Fault) -> Self {
        let objection = match &fault {
            // In TLS 1.3 a server refuses our certificate after our side of the handshake is done.
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

    /// The error for several addresses of which none serves: a server's error, or else that none could be dialled.
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

    /// Many TLS servers just close the connection of a client without TLS.
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

/// A certificate stays wrong, but a silent server may answer later.
#[cfg(feature = "tls")]
fn kind_of_tls(fault: &TlsFault) -> FailureKind {
    match fault {
        fault if fault.is_about_identity() => FailureKind::Auth,
        TlsFault::Silent(_) => FailureKind::Unavailable,
        _ => FailureKind::Misuse,
    }
}
