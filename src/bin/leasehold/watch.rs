//! `leasehold watch`: which locks are held, and what changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::time::Duration;

use leasehold::{Error, LockView, Locker, ServerFailure};
use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{Signal as Caught, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::args::duration;
use crate::exit::{End, Failure};
use crate::look::Look;
use crate::output::say;
use crate::screen::{Screen, keys};
use crate::servers::Servers;
use crate::show;
use crate::signals::Signals;
use crate::words::{complain, plain};

/// Shows the locks that are held, live; q or Ctrl-C ends it.
///
/// Every server's keys are gone through again and again, as `list` does it once. Without a terminal
/// it says one line for every change that it sees: what comes and goes between two looks is missed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Watch {
    #[command(flatten)]
    look: Look,

    /// How long to wait between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,

    /// Look at so many locks at the most
    #[arg(long, value_name = "LOCKS", default_value_t = 1000)]
    limit: usize,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ takes the next for itself
    #[arg(default_value = "*")]
    pattern: OsString,
}

/// What one look came to.
struct Looked {
    /// In the order of their names.
    locks: BTreeMap<Vec<u8>, LockView>,
    /// Whether there is none beside them.
    is_all: bool,
    is_cut_off: bool,
    failures: Vec<ServerFailure>,
    error: Option<Error>,
}

impl Watch {
    pub async fn perform(self, servers: &Servers) -> Result<End, Failure> {
        let mut events = Events::catch()?;
        let locker = tokio::select! {
            biased;
            end = events.end() => return Ok(end),
            connected = self.look.connect(servers) => connected?,
        };
        if Screen::is_there() {
            return self.live(&locker, &mut events).await;
        }
        tokio::select! {
            biased;
            end = events.end() => Ok(end),
            Err(failure) = self.by_line(&locker) => Err(failure),
        }
    }

    async fn live(&self, locker: &Locker, events: &mut Events) -> Result<End, Failure> {
        let mut screen = Screen::enter()?;
        events.keys = Some(keys());
        let mut page = vec![self.heading("looking ..")];
        let mut looking = pin!(self.look_after(Duration::ZERO, locker));
        loop {
            screen.draw(&page)?;
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Event::End(end) => return Ok(end),
                    Event::Stop => {
                        // The shell gets its terminal back before we stop.
                        drop(screen);
                        let _ = raise(Signal::SIGSTOP);
                        screen = Screen::enter()?;
                    }
                    Event::Other => {}
                },
                looked = &mut looking => {
                    page = self.page(&looked);
                    looking.set(self.look_after(self.interval, locker));
                }
            }
        }
    }

    async fn by_line(&self, locker: &Locker) -> Result<Infallible, Failure> {
        let (mut known, mut pause, mut was_failing) = (BTreeMap::new(), Duration::ZERO, false);
        loop {
            let looked = self.look_after(pause, locker).await;
            pause = self.interval;
            if let (Some(error), false) = (&looked.error, was_failing) {
                complain(&error.to_string());
            }
            was_failing = looked.error.is_some();
            let now = looked.locks.into_iter().map(|(name, view)| (name, Line::of(&view)));
            for line in changes(&mut known, now.collect(), looked.is_all) {
                say(&line)?;
            }
        }
    }

    async fn look_after(&self, pause: Duration, locker: &Locker) -> Looked {
        sleep(pause).await;
        let mut looked = Looked {
            locks: BTreeMap::new(),
            is_all: false,
            is_cut_off: false,
            failures: Vec::new(),
            error: None,
        };
        let mut list = locker.list(self.pattern.as_bytes());
        while !looked.is_cut_off {
            match list.next().await {
                Ok(Some(view)) if looked.locks.len() < self.limit => {
                    looked.locks.insert(view.name.clone(), view);
                }
                Ok(Some(_)) => looked.is_cut_off = true,
                Ok(None) => break,
                Err(error) => {
                    looked.error = Some(error);
                    break;
                }
            }
        }
        looked.is_all = list.is_complete();
        looked.failures = list.failures().to_vec();
        looked
    }

    fn heading(&self, what: &str) -> String {
        let pattern = plain(self.pattern.as_bytes());
        format!("leasehold: locks {pattern}: {what} (q ends)")
    }

    fn page(&self, looked: &Looked) -> Vec<String> {
        let count = looked.locks.len();
        let what = match (&looked.error, looked.is_all) {
            (Some(_), _) => "no server can be gone through".to_owned(),
            (None, true) => format!("{count} held"),
            (None, false) if looked.is_cut_off => format!("more than {count} held"),
            (None, false) => format!("{count} seen, too few servers could be gone through"),
        };
        let failures = looked.failures.iter();
        let failures = failures.map(|failure| format!("{}: {}", failure.server, failure.reason));
        let mut lines = vec![self.heading(&what)];
        lines.extend(failures);
        lines.push(show::HEADING.to_owned());
        lines.extend(looked.locks.values().map(show::row));
        lines
    }
}

/// A lock as one line tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    state: &'static str,
    owner: Option<String>,
    text: String,
}

impl Line {
    fn of(view: &LockView) -> Self {
        let owner = view.holders.first().map(|holder| holder.holder.owner.clone());
        Self { state: show::word(view.state), owner, text: show::change(view) }
    }

    fn is_another_than(&self, before: &Self) -> bool {
        (self.state, &self.owner) != (before.state, &before.owner)
    }
}

/// What is to be said of the locks that are held `now`, and from then on known. Those that are not
/// there any more are free, if these are all.
fn changes(
    known: &mut BTreeMap<Vec<u8>, Line>,
    now: BTreeMap<Vec<u8>, Line>,
    is_all: bool,
) -> Vec<String> {
    let mut said = Vec::new();
    if is_all {
        known.retain(|name, _| {
            let is_held = now.contains_key(name);
            if !is_held {
                said.push(format!("{}: free", plain(name)));
            }
            is_held
        });
    }
    for (name, line) in now {
        if known.get(&name).is_none_or(|before| line.is_another_than(before)) {
            said.push(line.text.clone());
        }
        known.insert(name, line);
    }
    said
}

enum Event {
    /// We are to end, and so.
    End(End),
    /// We are to stop until we are told to go on.
    Stop,
    /// What is shown may not be seen any more.
    Other,
}

/// What may happen beside what is looked at.
struct Events {
    signals: Signals,
    /// None where there is no terminal.
    keys: Option<UnboundedReceiver<u8>>,
    stop: Caught,
    resize: Caught,
}

impl Events {
    fn catch() -> Result<Self, Failure> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::System("no signal can be caught", error));
        Ok(Self {
            signals: Signals::catch()?,
            keys: None,
            stop: catch(SignalKind::from_raw(Signal::SIGTSTP as i32))?,
            resize: catch(SignalKind::window_change())?,
        })
    }

    /// The next one.
    ///
    /// # Cancel safety
    ///
    /// None is lost when the future is dropped.
    async fn next(&mut self) -> Event {
        let Self { signals, keys, stop, resize } = self;
        let key = async {
            match keys {
                Some(keys) => keys.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            caught = signals.next() => Event::End(caught.signal.into()),
            key = key => match key {
                Some(b'q' | b'Q') => Event::End(End::Code(0)),
                Some(_) => Event::Other,
                None => Event::End(Signal::SIGHUP.into()),
            },
            _ = stop.recv() => Event::Stop,
            _ = resize.recv() => Event::Other,
        }
    }

    /// Waits until it is to end, and how; nothing else matters where there is no screen.
    async fn end(&mut self) -> End {
        loop {
            match self.next().await {
                Event::End(end) => return end,
                Event::Stop => drop(raise(Signal::SIGSTOP)),
                Event::Other => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(held: &[(&str, &str)]) -> BTreeMap<Vec<u8>, Line> {
        let line = |(name, owner): &(&str, &str)| {
            let text = format!("{name}: held by {owner}");
            let line = Line { state: "held", owner: Some((*owner).to_owned()), text };
            (name.as_bytes().to_vec(), line)
        };
        held.iter().map(line).collect()
    }

    #[test]
    fn each_change_is_one_line() {
        let mut known = BTreeMap::new();
        let mut said = |held: &[_], is_all| changes(&mut known, lines(held), is_all);
        assert_eq!(said(&[("a", "x"), ("b", "x")], true), ["a: held by x", "b: held by x"]);
        assert_eq!(said(&[("a", "x"), ("b", "x")], true), [""; 0]);
        assert_eq!(said(&[("a", "y")], false), ["a: held by y"]);
        assert_eq!(said(&[("a", "y")], true), ["b: free"]);
        assert_eq!(said(&[], true), ["a: free"]);
    }
}
