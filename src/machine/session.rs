//! What a link knows of its connection beside the commands on it: the login, the run of the server.

#[cfg(any(test, feature = "credentials"))]
use std::time::Duration;

#[cfg(any(test, feature = "sentinel"))]
use super::command::Memory;
use crate::policy::Moment;

/// The steps of a handshake; each is one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Hello,
    Auth,
    SetName,
    SetLibrary,
    Select,
    /// Of this section.
    Info(&'static str),
    /// What is said before the scripts is proved.
    Seal,
    Load,
    /// All is proved.
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
            Self::Info(_) => "INFO",
            Self::Seal | Self::Last => "ECHO",
            Self::Load => "SCRIPT LOAD",
        }
    }

    /// The smallest right that it needs, where servers name a larger one.
    pub(crate) fn right(self) -> Option<String> {
        match self {
            Self::Info(section) => Some(format!("+info|{section}")),
            Self::Load => Some("+script|load".to_owned()),
            _ => None,
        }
    }
}

/// How a connection logs in, and to which database. A password is never shown.
#[derive(Clone, Default)]
pub(crate) struct Login {
    /// None is the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    /// Of credentials that end: from when on they count, and for how long.
    #[cfg(any(test, feature = "credentials"))]
    pub(crate) lasts: Option<(Moment, Duration)>,
}

impl Login {
    /// The words of `AUTH`, where there is a password.
    pub(super) fn auth(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_deref()?;
        let user = self.user.as_deref().map(str::as_bytes);
        Some([&b"AUTH"[..]].into_iter().chain(user).chain([password.as_bytes()]).collect())
    }
}

/// When a connection logs in again.
#[cfg(any(test, feature = "credentials"))]
pub(super) struct Renewal {
    /// None while the driver asks for credentials, or the server for its answer.
    pub(super) at: Option<Moment>,
    /// Of the credentials that were sent last.
    pub(super) lasts: Option<(Moment, Duration)>,
    /// Tries in a row that failed.
    pub(super) failed: u32,
}

/// Of a link whose server changes.
#[cfg(any(test, feature = "sentinel"))]
#[derive(Default)]
pub(super) struct Succession {
    pub(super) memory: Option<Box<dyn Memory>>,
    /// The link leads to another server since, which has still to be met, and may not vote before this.
    pub(super) is_elsewhere: bool,
    pub(super) settles_at: Moment,
}

/// The run of the server that was met last.
pub(super) struct Sighting {
    pub(super) run_id: String,
    pub(super) first_seen: Moment,
    /// When it began at the earliest: when our connection to the run before ended.
    pub(super) not_before: Option<Moment>,
    /// When our last connection to it ended.
    pub(super) left_at: Option<Moment>,
}

impl Sighting {
    /// Of the run that was met at `now`, after the one that was met before; and whether it is another.
    pub(super) fn of(met: &str, before: Option<Self>, now: Moment) -> (Self, bool) {
        let not_before = match before {
            Some(same) if same.run_id == met => return (Self { left_at: None, ..same }, false),
            other => other.map(|other| other.left_at.unwrap_or(now)),
        };
        let sighting = Self { run_id: met.to_owned(), first_seen: now, not_before, left_at: None };
        (sighting, not_before.is_some())
    }
}
