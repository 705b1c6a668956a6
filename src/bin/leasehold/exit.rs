//! How it ends: exit codes as in sysexits.h, and the words for them.

use std::io;
use std::process::ExitCode;

use leasehold::{Error, Loss};

/// What was asked for is no more: the lock is another's, or a lease has ended.
pub const CONFLICT: u8 = 1;
/// The command line cannot be read, or wants a terminal and there is none.
pub const USAGE: u8 = 64;
/// Too few servers can be reached.
pub const UNAVAILABLE: u8 = 69;
/// The operating system refused something.
const SYSTEM: u8 = 71;
/// A file cannot be written.
const CANNOT_CREATE: u8 = 73;
/// The lease was lost.
const LOST: u8 = 75;
/// The servers refuse us.
const NOT_ALLOWED: u8 = 77;
/// What was given makes no sense.
pub const CONFIGURATION: u8 = 78;
/// What a shell says of a command that cannot be run, and of one that cannot be found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// What a shell adds to the number of the signal that ended a command.
const BY_SIGNAL: u8 = 128;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The lock is another's, and is not waited for any longer: the exit code for that.
    #[error("{0}")]
    Conflict(Error, u8),
    #[error("{0}")]
    Lock(#[from] Error),
    #[error("the lease was lost ({0}) and the command was ended")]
    Lost(Loss),
    #[error("{0}: {1}")]
    Command(String, io::Error),
    #[error("{0}: {1}")]
    File(String, io::Error),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    pub fn code(&self) -> u8 {
        match self {
            Self::Conflict(_, code) => *code,
            Self::Lock(error) if error.is_auth() => NOT_ALLOWED,
            Self::Lock(error) if error.is_misuse() => CONFIGURATION,
            Self::Lock(error) if error.is_lost() => LOST,
            Self::Lock(_) => UNAVAILABLE,
            Self::Lost(_) => LOST,
            Self::Command(_, error) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Command(..) => CANNOT_RUN,
            Self::File(..) => CANNOT_CREATE,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::System(..) | Self::Output(_) => SYSTEM,
        }
    }

    /// Whoever read what we say has read enough: that is no failure.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The exit code of somebody whom this signal ended.
pub fn by_signal(number: i32) -> u8 {
    BY_SIGNAL.saturating_add(u8::try_from(number).unwrap_or(0))
}

/// Says what is wrong with a command line, or what was asked about it.
pub fn of_usage(error: &clap::Error) -> ExitCode {
    // Where nobody reads it, there is nobody to tell.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
