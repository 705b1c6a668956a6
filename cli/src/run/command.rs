//! The process that becomes the command: it waits for the lock beside the keeper, in the caller's job, and then
//! executes the command.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use leasehold::FencingToken;
use rustix::process::Pid;

use super::channel::{given, start_ourselves};
use crate::args::Run;
use crate::exit::{End, Failure};
use crate::words::plain;
use crate::{secret, signals};

pub const NAME: &str = "lease-command";

/// A process that waits for the lock. Dropping this ends it.
pub struct Prepared {
    pub id: Pid,
    orders: UnixStream,
}

impl Prepared {
    pub fn start(input: impl AsFd) -> io::Result<Self> {
        let (id, orders) = start_ourselves(NAME, input)?;
        Ok(Self { id, orders })
    }

    /// Starts the command, with the lease in its environment.
    ///
    /// `lock` is the index of the lock among those that are enough.
    pub fn go(mut self, fence: FencingToken, deadline_ms: u128, lock: usize) -> io::Result<()> {
        writeln!(self.orders, "{fence} {deadline_ms} {lock}")
    }
}

/// Waits for the lock, then executes the command. Returns only if that fails.
pub fn become_it(run: &Run) -> Result<End, Failure> {
    // The keeper's main thread has started this process, which ends with that thread.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(|error| {
        Failure::System("the command cannot be tied to leasehold", error.into())
    })?;
    let (orders, input) = given().map_err(Failure::ourselves)?;
    let mut order = String::new();
    let heard = BufReader::new(orders).read_line(&mut order);
    let words: Vec<&str> = order.split_whitespace().collect();
    let (Ok(1..), [fence, deadline, lock]) = (heard, &words[..]) else {
        return Ok(End::Code(0));
    };
    let name = lock.parse().ok().and_then(|lock| run.names().nth(lock)).unwrap_or(&run.name);
    let shell_line = run.command.as_ref().map(|line| [OsString::from("-c"), line.clone()]);
    let (program, arguments) = match (&shell_line, run.words.split_first()) {
        (None, Some((program, arguments))) => (&**program, arguments),
        (line, _) => (OsStr::new("/bin/sh"), line.as_ref().map_or(&[][..], |line| &line[..])),
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(input).env("LEASEHOLD_NAME", name);
    command.env("LEASEHOLD_FENCE", fence).env("LEASEHOLD_DEADLINE_MS", deadline);
    secret::keep_from(&mut command);
    signals::let_all_through();
    Err(Failure::Command(plain(program.as_encoded_bytes()), command.exec()))
}
