//! Signals that are for the command, or end what we do.
//!
//! They are blocked and read, and nothing handles them: so they still do what they do by themselves to
//! a process that lets them through, and what this program starts finds them as it was given them.

use std::future::Future;
use std::io;

use nix::sys::signal::{SigSet, Signal};

use crate::exit::Failure;

/// Those that ask somebody to end, or that people send to commands.
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
    /// The terminal has sent it to all of its job.
    pub is_for_all: bool,
}

/// From its making on, these signals end nothing any more but are told of here.
pub struct Signals {
    source: source::Source,
}

impl Signals {
    /// Has to be made before any other thread is.
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

    /// The next one.
    ///
    /// # Cancel safety
    ///
    /// None is lost when the future is dropped.
    pub async fn next(&mut self) -> Caught {
        match self.source.next().await {
            Some(caught) => caught,
            None => std::future::pending().await,
        }
    }

    /// What comes of `work`, or the signal that ended it first.
    pub async fn interrupt<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::select! {
            biased;
            caught = self.next() => Err(caught.signal),
            outcome = work => Ok(outcome),
        }
    }
}

/// From here on it is an error, and not our end, to write beyond the limit of a file's size. Has to be called before any
/// other thread is made.
pub fn outlive_limits() {
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

/// Undoes what `catch` does.
pub fn let_caught_through() {
    let _ = CAUGHT.into_iter().collect::<SigSet>().thread_unblock();
}

/// The same, and what `outlive_limits` does: for what this process becomes.
pub fn let_all_through() {
    let_caught_through();
    let _ = SigSet::from(Signal::SIGXFSZ).thread_unblock();
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// Those that our caller has us ignore, as nohup(1) does: where that can be known.
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
                // Of a terminal that is gone it tells the first process of the session alone.
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

        /// Nothing names the sender; these two are what a terminal sends.
        pub async fn next(&mut self) -> Option<Caught> {
            let signal = self.0.recv().await?;
            let is_for_all = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
            Some(Caught { signal, is_for_all })
        }
    }
}
