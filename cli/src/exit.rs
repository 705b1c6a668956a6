//! Ends this process: exit codes as in sysexits.h, and the error texts.

use std::io;
use std::process::ExitCode;

use leasehold::{Error, ErrorKind, Loss};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, raise};

/// The state is not as requested: another client has the lock, or nobody has, or a lease has ended.
pub const CONFLICT: u8 = 1;
/// The command line is wrong, or needs a terminal and there is none.
pub const USAGE: u8 = 64;
/// A file cannot be read.
const NO_INPUT: u8 = 66;
/// Too few servers can be reached.
pub const UNAVAILABLE: u8 = 69;
/// The operating system refused something.
pub const SYSTEM: u8 = 71;
/// A file cannot be written.
const CANNOT_CREATE: u8 = 73;
/// The lease was lost.
const LOST: u8 = 75;
/// The servers refuse this user.
const NOT_ALLOWED: u8 = 77;
/// An option or a URL is wrong.
pub const CONFIGURATION: u8 = 78;
/// A shell's codes for a command that cannot be run, and for one that cannot be found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Added by a shell to the number of the signal that ended a command.
const BY_SIGNAL: u8 = 128;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(u8),
    /// The number of the signal.
    Signal(i32),
}

impl End {
    /// Ends this process in the same way, by the signal itself, which a shell as parent looks for.
    pub fn of_ourselves(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(number) => {
                // The command has left a core dump if it was to; this process leaves none.
                let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
                if let Ok(signal) = Signal::try_from(number) {
                    let _ = SigSet::from(signal).thread_unblock();
                    // The second signal, because Rust handles the first of some signals.
                    let _ = raise(signal);
                    let _ = raise(signal);
                }
                // The signal is ignored, or this is the first process of a container.
                ExitCode::from(BY_SIGNAL.saturating_add(u8::try_from(number).unwrap_or(0)))
            }
        }
    }
}

impl From<Signal> for End {
    fn from(signal: Signal) -> Self {
        Self::Signal(signal as i32)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another client holds the lock, and the wait is over: the exit code for that.
    #[error("{0}")]
    Conflict(Error, u8),
    #[error("{0}")]
    Lock(#[from] Error),
    #[error("the lease was lost ({0}), so the command was ended")]
    Lost(Loss),
    #[error("the lease could not be renewed, so the command was ended: {0}")]
    NotRenewed(String),
    #[error(
        "the process that renews the lease {0}, so the command was ended; the lock may stay taken until its TTL is over"
    )]
    Unkept(&'static str),
    #[error("{0}: {1}")]
    Command(String, io::Error),
    #[error("{0}: {1}")]
    File(String, io::Error),
    #[error("{0}: {1}")]
    Unread(String, io::Error),
    #[error("{0}")]
    Options(&'static str),
    #[error(
        "{0} takes scripts: leave --scriptless (LEASEHOLD_SCRIPTLESS) out, where the servers run them"
    )]
    Scripts(&'static str),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    pub fn code(&self) -> u8 {
        match self {
            Self::Conflict(_, code) => *code,
            Self::Lock(error) => match error.kind() {
                ErrorKind::Auth => NOT_ALLOWED,
                ErrorKind::Misuse => CONFIGURATION,
                _ if error.loss().is_some() => LOST,
                _ => UNAVAILABLE,
            },
            Self::Lost(_) | Self::NotRenewed(_) | Self::Unkept(_) => LOST,
            Self::Command(_, error) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Command(..) => CANNOT_RUN,
            Self::File(..) => CANNOT_CREATE,
            Self::Unread(..) => NO_INPUT,
            Self::Options(_) | Self::Scripts(_) => CONFIGURATION,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::System(..) | Self::Output(_) => SYSTEM,
        }
    }

    /// The error if the processes of a `run` cannot start, or cannot talk to each other.
    pub fn ourselves(error: io::Error) -> Self {
        Self::System("leasehold cannot start itself", error)
    }

    /// The output's reader has closed it, which is no failure.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Prints what is wrong with a command line, or the help.
pub fn of_usage(error: &clap::Error) -> ExitCode {
    // Printing fails if nobody reads.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use leasehold_testing::texts;

    use super::*;

    macro_rules! each {
        ($($pattern:pat => $value:expr),+ $(,)?) => {{
            let values = [$($value),+];
            if let Some(value) = values.first() {
                match value { $($pattern => {})+ }
            }
            values.map(|value| value.to_string()).to_vec()
        }};
    }

    fn misuse() -> Error {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(leasehold::Locker::connect("http://h")).map(|_| ()).unwrap_err()
    }

    #[test]
    fn error_texts_change_only_on_purpose() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let failures = each![
            Failure::Conflict(..) => Failure::Conflict(misuse(), CONFLICT),
            Failure::Lock(_) => Failure::Lock(misuse()),
            Failure::Lost(_) => Failure::Lost(Loss::Gone),
            Failure::NotRenewed(_) =>
                Failure::NotRenewed("10.0.0.1:6379: cannot connect: Connection refused".into()),
            Failure::Unkept(_) => Failure::Unkept("does not answer"),
            Failure::Command(..) => Failure::Command("report.sh".into(), denied()),
            Failure::File(..) => Failure::File("chart.svg".into(), denied()),
            Failure::Unread(..) => Failure::Unread("password".into(), denied()),
            Failure::Options(_) => Failure::Options("--user needs --password-file"),
            Failure::Scripts(_) => Failure::Scripts("run --shared"),
            Failure::System(..) => Failure::ourselves(denied()),
            Failure::Output(_) => Failure::Output(denied()),
        ];
        texts::hold("command.txt", &[("How leasehold fails, after \"leasehold: \"", failures)]);
    }
}
