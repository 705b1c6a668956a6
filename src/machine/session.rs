//! The state of a connection beside its commands: the login, the run of the server, why there is no connection, and the
//! pushes of hand-overs and of changed keys.
//!
//! Both pushes come on the connection of the commands. Each connection has a channel of its own, so one that has ended has no
//! subscriber. Keys are tracked by `OPTIN`, which remembers only keys that waiters and renewals read, so other requests cost
//! the server nothing. A server does not tell a connection of its own changes, which the machine knows from their replies.

#[cfg(any(test, feature = "credentials"))]
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::{DecodeError, Frame};

#[cfg(any(test, feature = "sentinel"))]
use super::command::Memory;
use super::ids::{ID_LENGTH, write_digits};
use crate::policy::fitness::Unfit;
use crate::policy::{Code, Moment};

/// The steps of a handshake; each is one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Hello,
    Auth,
    SetName,
    SetLibrary,
    Select,
    /// The nodes that it knows.
    #[cfg(any(test, feature = "cluster"))]
    Slots,
    /// One section.
    Info(&'static str),
    /// Proves the replies before the scripts.
    Seal,
    Load,
    /// Proves all replies.
    Last,
}

impl Step {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Auth => "AUTH",
            Self::SetName => "CLIENT SETNAME",
            Self::SetLibrary => "CLIENT SETINFO",
            Self::Select => {
                "SELECT (the database in the URL; a Cluster has only 0, unless it is Valkey's and has \
                 cluster-databases)"
            }
            #[cfg(any(test, feature = "cluster"))]
            Self::Slots => "CLUSTER SLOTS",
            Self::Info(_) => "INFO",
            Self::Seal | Self::Last => "ECHO",
            Self::Load => "SCRIPT LOAD",
        }
    }

    /// The smallest right that it needs, if servers name a larger one.
    pub(crate) fn right(self) -> Option<String> {
        match self {
            Self::Info(section) => Some(format!("+info|{section}")),
            Self::Load => Some("+script|load".to_owned()),
            _ => None,
        }
    }
}

/// The name that CLIENT LIST shows.
pub(super) const CLIENT_NAME: &[u8] = b"leasehold";

/// How a connection logs in, and to which database. A password is never shown.
#[derive(Clone, Default)]
pub(crate) struct Login {
    /// None means the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    /// Of expiring credentials: from when on they count, and for how long.
    #[cfg(any(test, feature = "credentials"))]
    pub(crate) lasts: Option<(Moment, Duration)>,
}

impl Login {
    /// The words of `HELLO`, in RESP3.
    pub(crate) fn hello(&self) -> Vec<&[u8]> {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = self.password.as_deref() {
            let user = self.user.as_deref().unwrap_or("default");
            hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([&b"SETNAME"[..], CLIENT_NAME]);
        hello
    }

    /// The words of `AUTH`, where there is a password.
    pub(crate) fn auth(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_deref()?;
        let mut auth: Vec<&[u8]> = vec![b"AUTH"];
        auth.extend(self.user.as_deref().map(str::as_bytes));
        auth.push(password.as_bytes());
        Some(auth)
    }
}

/// When a connection logs in again.
#[cfg(any(test, feature = "credentials"))]
pub(super) struct Renewal {
    /// None while the driver gets credentials, or the server's answer is awaited.
    pub(super) at: Option<Moment>,
    /// The life of the credentials that were sent last.
    pub(super) lasts: Option<(Moment, Duration)>,
    /// Tries in a row that failed.
    pub(super) failed: u32,
}

/// The state of a link whose server changes.
#[cfg(any(test, feature = "sentinel"))]
#[derive(Default)]
pub(super) struct Succession {
    pub(super) memory: Option<Box<dyn Memory>>,
    /// The link leads to another server, not met yet, which may not vote before `settles_at`.
    pub(super) is_elsewhere: bool,
    pub(super) settles_at: Moment,
}

/// The run of the server that was met last.
pub(super) struct Sighting {
    pub(super) run_id: String,
    pub(super) first_seen: Moment,
    /// When it began at the earliest: when our connection to the former run ended.
    pub(super) not_before: Option<Moment>,
    /// When our last connection to it ended.
    pub(super) left_at: Option<Moment>,
}

impl Sighting {
    /// The sighting of the run that was met at `now`, after the former one; and whether it is another run.
    pub(super) fn of(met: &str, before: Option<Self>, now: Moment) -> (Self, bool) {
        let not_before = match before {
            Some(same) if same.run_id == met => return (Self { left_at: None, ..same }, false),
            other => other.map(|other| other.left_at.unwrap_or(now)),
        };
        let sighting = Self { run_id: met.to_owned(), first_seen: now, not_before, left_at: None };
        (sighting, not_before.is_some())
    }
}

/// The first byte of a TLS server's answer to a client that does not speak TLS.
const TLS_ALERT: u8 = 0x15;
/// Why a connection has to end, or there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The driver could not dial; if that `is_lasting`, another dial does not help.
    Undialled { is_lasting: bool },
    /// It was closed by the other side, or the system.
    Closed,
    /// Dial and handshake together took too long.
    Late,
    /// The server answered the commands before the scripts, and not the scripts.
    HeldUp,
    /// The bytes are not RESP.
    Garbled(DecodeError),
    /// A reply that its command cannot have, or one too many.
    Misplaced,
    /// A reply that a lease counts on cannot be proved: the server refuses the seal.
    Unsealed(Bytes),
    /// A step of the handshake was refused.
    Refused { step: Step, text: Bytes },
    /// The server answered a step by a reply that the step cannot have.
    Unexpected(Step),
    /// Nothing came for too long.
    Silent,
    /// The server is not fit to grant locks.
    Unfit(Unfit),
    /// It is the same server as the one of this link.
    SameAs(usize),
    /// The server has said that it is a replica: it is dialled again, to be judged again.
    Demoted,
}

impl Fault {
    /// Whether it lasts until the server or the client is changed.
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

/// The prefix of all channels, by which `docs/acl.md` grants them.
const PREFIX: &[u8; 10] = b"leasehold:";
const CHANNEL_BYTES: usize = PREFIX.len() + ID_LENGTH;

/// The part of a subscription that a reply is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    OfHandOvers,
    OfKeys,
}

/// The pushes of one connection.
#[derive(Clone, Copy)]
pub(super) struct Subscription {
    channel: [u8; CHANNEL_BYTES],
    pub(super) is_asked: bool,
    /// The server has answered all its commands.
    pub(super) is_settled: bool,
    /// The server has confirmed the channel.
    pub(super) is_confirmed: bool,
    /// The server tells of changes to keys that are read after `CLIENT CACHING YES`.
    pub(super) is_tracking: bool,
}

impl Subscription {
    pub(super) const NONE: Self = Self {
        channel: [0; CHANNEL_BYTES],
        is_asked: false,
        is_settled: false,
        is_confirmed: false,
        is_tracking: false,
    };

    /// A subscription that was asked for, with a channel of this number.
    pub(super) fn asked(id: u128) -> Self {
        let mut channel = [0; CHANNEL_BYTES];
        channel[..PREFIX.len()].copy_from_slice(PREFIX);
        write_digits(id, &mut channel[PREFIX.len()..]);
        Self { channel, is_asked: true, ..Self::NONE }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.is_asked && !self.is_settled
    }

    pub(super) fn channel(&self) -> &[u8] {
        &self.channel
    }

    /// Whether a push says that the channel is subscribed to.
    pub(super) fn is_confirmed_by(&self, push: &Frame) -> bool {
        let Frame::Push(items) = push else { return false };
        let is = |item: &Frame, text: &[u8]| item.as_bytes().is_some_and(|word| word[..] == *text);
        matches!(&items[..], [kind, channel, ..] if is(kind, b"subscribe") && is(channel, &self.channel))
    }
}
