//! Why there is no connection.

use bytes::Bytes;
use leasehold_resp::DecodeError;

use super::session::Step;
use crate::policy::Code;
use crate::policy::fitness::Unfit;

/// What a server of TLS begins its answer with to a client that does not speak TLS.
const TLS_ALERT: u8 = 0x15;
/// Why a connection has to end, or there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The driver could not dial; trying again does not help where that `is_lasting`.
    Undialled { is_lasting: bool },
    /// It was closed by the other side, or the system.
    Closed,
    /// Dial and handshake together took too long.
    Late,
    /// The server answered what was said before the scripts, and not them.
    HeldUp,
    /// What came is no protocol.
    Garbled(DecodeError),
    /// A reply that its command cannot have, or one too many.
    Misplaced,
    /// A reply that a lease counts on cannot be proved: the server refuses the seal.
    Unsealed(Bytes),
    /// A step of the handshake was refused.
    Refused { step: Step, text: Bytes },
    /// The server answered a step with something else than that step's reply.
    Unexpected(Step),
    /// Nothing came for too long.
    Silent,
    /// The server is not fit to grant locks.
    Unfit(Unfit),
    /// It is the same server as the one of this link.
    SameAs(usize),
    /// The server has said that it is a replica: it is left, so that it is judged again.
    Demoted,
}

impl Fault {
    /// Whether it stays so until somebody changes the server or the client.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Refused { text, .. } | Self::Unsealed(text) => Code::of_bytes(text).is_lasting(),
            Self::Unfit(unfit) => unfit.is_lasting(),
            Self::SameAs(_) | Self::Undialled { is_lasting: true } => true,
            Self::Garbled(error) => *error == DecodeError::UnknownType(TLS_ALERT),
            _ => false,
        }
    }
}
