//! Signals that are for the command, or end the wait for its lock.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Those that ask somebody to end, or that people send to commands; and that something became of
/// the command.
const CAUGHT: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCHLD,
];

/// From its making on, these signals end nothing any more but are told of here.
pub struct Signals {
    caught: UnboundedReceiver<Signal>,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        let (told, caught) = unbounded_channel();
        for number in CAUGHT {
            let mut stream = signal(SignalKind::from_raw(number as i32))?;
            let told = told.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && told.send(number).is_ok() {}
            });
        }
        Ok(Self { caught })
    }

    /// The next one.
    ///
    /// # Cancel safety
    ///
    /// None is lost when the future is dropped.
    pub async fn next(&mut self) -> Signal {
        match self.caught.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next one that is to end what we do.
    ///
    /// # Cancel safety
    ///
    /// None of that kind is lost when the future is dropped.
    pub async fn next_to_end_us(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal != Signal::SIGCHLD {
                return signal;
            }
        }
    }
}
