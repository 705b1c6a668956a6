//! Signals that are passed to the command, or end a wait.
//!
//! They are blocked and read, without handlers: so a process that unblocks them has their default actions, and programs
//! that this one starts find them unchanged.

use std::future::Future;
use std::io;

use nix::sys::signal::{SigSet, Signal};

use crate::exit::Failure;

/// Signals that request an end, or that users send to commands.
const CAUGHT: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

pub struct Caught {
    pub signal: Signal,
    /// The terminal has sent it to its whole foreground job.
    pub is_for_all: bool,
}

/// Blocks these signals, and returns them one by one.
pub struct Signals {
    source: source::Source,
}

impl Signals {
    /// To be called before any other thread starts.
    pub fn catch() -> Result<Self, Failure> {
        let ignored = ignored();
        let caught = CAUGHT.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let caught: SigSet = caught.collect();
        let source = caught
            .thread_block()
            .map_err(io::Error::from)
            .and_then(|()| source::Source::of(caught))
            .map_err(|error| Failure::System("no signal can be caught", error))?;
        Ok(Self { source })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// No signal is lost when the future is dropped.
    pub async fn next(&mut self) -> Caught {
        match self.source.next().await {
            Some(caught) => caught,
            None => std::future::pending().await,
        }
    }

    /// The output of `work`, or the signal that came first.
    pub async fn interrupt<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::select! {
            biased;
            caught = self.next() => Err(caught.signal),
            outcome = work => Ok(outcome),
        }
    }
}

/// From here on a write beyond the limit of a file's size is an error instead of this process's end. To be called
/// before any other thread starts.
pub fn outlive_limits() {
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

/// Undoes what `catch` does.
pub fn let_caught_through() {
    let _ = CAUGHT.into_iter().collect::<SigSet>().thread_unblock();
}

/// Undoes `catch` and `outlive_limits`, for the program that this process becomes.
pub fn let_all_through() {
    let_caught_through();
    let _ = SigSet::from(Signal::SIGXFSZ).thread_unblock();
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// Signals that the caller has set to be ignored, as nohup(1) does, as far as known.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
mod source {
    use std::io;

    use nix::libc::SI_KERNEL;
    use nix::sys::signal::{SigSet, Signal};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use nix::unistd::{getpid, getsid};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::Caught;

    pub struct Source(AsyncFd<SignalFd>);

    impl Source {
        pub fn of(caught: SigSet) -> io::Result<Self> {
            let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
            let read = SignalFd::with_flags(&caught, flags)?;
            #[allow(deprecated, reason = "its successor is too new; this one owns its descriptor")]
            let read = AsyncFd::with_interest(read, Interest::READABLE)?;
            Ok(Self(read))
        }

        pub async fn next(&mut self) -> Option<Caught> {
            loop {
                let mut ready = self.0.readable().await.ok()?;
                let Some(told) = ready.get_inner().read_signal().ok()? else {
                    ready.clear_ready();
                    continue;
                };
                let signal = Signal::try_from(i32::try_from(told.ssi_signo).ok()?).ok()?;
                // At a hangup the terminal signals only the first process of the session.
                let is_ours = signal == Signal::SIGHUP && getsid(None) == Ok(getpid());
                let is_for_all = told.ssi_code == SI_KERNEL && !is_ours;
                return Some(Caught { signal, is_for_all });
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod source {
    use std::io;

    use nix::sys::signal::{SigSet, Signal};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::Caught;

    pub struct Source(UnboundedReceiver<Signal>);

    impl Source {
        pub fn of(caught: SigSet) -> io::Result<Self> {
            let (told, signals) = unbounded_channel();
            std::thread::Builder::new().spawn(move || {
                while let Ok(signal) = caught.wait() {
                    if told.send(signal).is_err() {
                        break;
                    }
                }
            })?;
            Ok(Self(signals))
        }

        /// The sender is unknown here; these two are what a terminal sends.
        pub async fn next(&mut self) -> Option<Caught> {
            let signal = self.0.recv().await?;
            let is_for_all = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
            Some(Caught { signal, is_for_all })
        }
    }
}
