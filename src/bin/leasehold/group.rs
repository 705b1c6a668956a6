//! The command that runs under the lock, with all that it starts: a process group.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::exit::{Failure, by_signal};
use crate::terminal::Terminal;
use crate::words::plain;

pub struct Group {
    leader: Child,
    id: Pid,
    terminal: Option<Terminal>,
}

impl Group {
    /// Starts a command as the leader of a group of its own, which has the terminal if we do.
    pub fn start<'a>(
        program: &OsStr,
        arguments: &[OsString],
        environment: impl IntoIterator<Item = (&'a str, OsString)>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(arguments).envs(environment).process_group(0);
        let started = command.spawn().and_then(|leader| {
            let id = leader.id().and_then(|id| i32::try_from(id).ok());
            Ok((leader, Pid::from_raw(id.ok_or_else(|| io::Error::other("it has no id"))?)))
        });
        let (leader, id) = started.map_err(|error| cannot_run(program, error))?;
        let group = Self { leader, id, terminal: Terminal::ours() };
        group.to_the_front();
        Ok(group)
    }

    fn to_the_front(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.lend(self.id);
            // It may have been stopped for reading too soon.
            self.send(Signal::SIGCONT);
        }
    }

    /// Sends all of its members a signal. That there are none any more is no error.
    pub fn send(&self, signal: Signal) {
        let _ = killpg(self.id, signal);
    }

    /// Whether any of its members is left.
    pub fn is_left(&self) -> bool {
        killpg(self.id, None).is_ok()
    }

    /// If its leader was stopped at the terminal, we stop too, until both are to go on: a shell
    /// knows only of us.
    pub fn share_a_stop(&self) {
        let Some(terminal) = &self.terminal else { return };
        let stopped = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        if !matches!(waitid(Id::Pid(self.id), stopped), Ok(WaitStatus::Stopped(..))) {
            return;
        }
        terminal.take_back();
        let _ = raise(Signal::SIGSTOP);
        if Terminal::ours().is_some() {
            self.to_the_front();
        }
        self.send(Signal::SIGCONT);
    }

    /// Waits for its leader's end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        let ended = self.leader.wait().await;
        ended.map_err(|error| Failure::System("the command cannot be waited for", error))
    }
}

fn cannot_run(program: &OsStr, error: io::Error) -> Failure {
    Failure::Command(plain(program.as_encoded_bytes()), error)
}

/// Our exit code for a command that ended so.
pub fn code_of(status: ExitStatus) -> u8 {
    let by = status.signal().map(by_signal);
    by.unwrap_or_else(|| status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
