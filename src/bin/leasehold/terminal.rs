//! The terminal, which only one process group at a time may read: the command's, while it runs.

use std::io::stdin;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Lent to the command, and taken back at its end.
pub struct Terminal(());

impl Terminal {
    /// The terminal that we are in the foreground of, if we are.
    pub fn ours() -> Option<Self> {
        if tcgetpgrp(stdin().as_fd()) != Ok(getpgrp()) {
            return None;
        }
        // Or we would be stopped for taking it back, which is for those in the foreground.
        SigSet::from(Signal::SIGTTOU).thread_block().ok()?;
        Some(Self(()))
    }

    /// From here on it is this group's.
    pub fn lend(&self, group: Pid) {
        let _ = tcsetpgrp(stdin().as_fd(), group);
    }

    pub fn take_back(&self) {
        self.lend(getpgrp());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
