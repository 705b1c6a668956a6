//! `leasehold watch`: which locks are held, and what changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Error, LockState, LockView, LockWatch, Locker, ServerFailure};
use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{Signal as Caught, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::exit::{End, Failure};
use crate::look::Look;
use crate::output::say;
use crate::page::{Page, Row};
use crate::screen::{Screen, keys};
use crate::servers::Servers;
use crate::show;
use crate::signals::Signals;
use crate::times::duration;
use crate::words::{complain, plain};

/// Shows the locks that are held, live: q or Ctrl-C ends it; j, k, b, space, g, G and the arrows
/// scroll as in a pager.
///
/// Scans the keys of every server again and again, as `list` does once. Of one name, without * ? [ or \,
/// servers tell of changes instead, and nothing is scanned. If its output is no terminal, prints one line
/// with the time (UTC) for every change that it sees.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Watch {
    #[command(flatten)]
    look: Look,

    /// Pause between two scans; of one name, how often the time left is shown
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,

    /// Maximum number of locks to show
    #[arg(long, value_name = "LOCKS", default_value_t = 1000)]
    limit: usize,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ quotes the next character
    #[arg(default_value = "*")]
    pattern: OsString,
}

/// Where locks are looked for.
enum Source {
    /// Among all keys.
    Scan(Locker),
    /// There is one.
    One(Box<LockWatch>, Locker),
}

/// What one look came to.
#[derive(Default)]
struct Looked {
    /// In the order of their names.
    locks: BTreeMap<Vec<u8>, LockView>,
    /// Whether there is none beside them.
    is_all: bool,
    is_cut_off: bool,
    failures: Vec<ServerFailure>,
    error: Option<Error>,
}

impl Looked {
    fn one(seen: Result<LockView, Error>) -> Self {
        let mut looked = Self::default();
        match seen {
            Ok(view) => {
                looked.failures.clone_from(&view.failures);
                looked.is_all = view.state != LockState::Unknown;
                if !view.holders.is_empty() {
                    looked.locks.insert(view.name.clone(), view);
                }
            }
            Err(error) => looked.error = Some(error),
        }
        looked
    }
}

impl Watch {
    pub async fn perform(self, servers: &Servers) -> Result<End, Failure> {
        let mut events = Events::catch()?;
        let locker = tokio::select! {
            biased;
            end = events.end() => return Ok(end),
            connected = self.look.connect(servers) => connected?,
        };
        let source = self.source(locker)?;
        if Screen::is_there() {
            return self.live(source, &mut events).await;
        }
        tokio::select! {
            biased;
            end = events.end() => Ok(end),
            Err(failure) = self.by_line(source) => Err(failure),
        }
    }

    fn source(&self, locker: Locker) -> Result<Source, Failure> {
        let name = self.pattern.as_bytes();
        let is_pattern = name.iter().any(|byte| b"*?[\\".contains(byte));
        Ok(match is_pattern {
            true => Source::Scan(locker),
            false => Source::One(Box::new(locker.watch(name)?), locker),
        })
    }

    async fn live(&self, source: Source, events: &mut Events) -> Result<End, Failure> {
        let mut screen = Screen::enter()?;
        events.keys = Some(keys());
        let mut page = Page::default();
        page.set(vec![self.heading("looking ..")], Vec::new());
        let mut looking = pin!(self.look_after(Duration::ZERO, source));
        loop {
            screen.draw(&mut page)?;
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
                    Event::Key(key) => page.press(key),
                    Event::Other => {}
                },
                (looked, source) = &mut looking => {
                    self.fill(&mut page, &looked);
                    looking.set(self.look_after(self.interval, source));
                }
            }
        }
    }

    async fn by_line(&self, mut source: Source) -> Result<Infallible, Failure> {
        let is_told = matches!(source, Source::One(..));
        let mut pause = if is_told { Duration::MAX } else { Duration::ZERO };
        let (mut known, mut was_failing) = (BTreeMap::new(), false);
        loop {
            let looked;
            (looked, source) = self.look_after(pause, source).await;
            pause = if is_told { Duration::MAX } else { self.interval };
            if let (Some(error), false) = (&looked.error, was_failing) {
                complain(&error.to_string());
            }
            was_failing = looked.error.is_some();
            let now = looked.locks.into_iter().map(|(name, view)| (name, Line::of(&view)));
            for line in changes(&mut known, now.collect(), looked.is_all) {
                say(&format!("{} {line}", time()))?;
            }
        }
    }

    /// After a pause, which a change ends of which servers tell.
    async fn look_after(&self, pause: Duration, source: Source) -> (Looked, Source) {
        match source {
            Source::Scan(locker) => {
                sleep(pause).await;
                (self.scan(&locker).await, Source::Scan(locker))
            }
            Source::One(mut watch, locker) => {
                let seen = match timeout(pause, watch.changed()).await {
                    Ok(seen) => seen,
                    Err(_) => locker.inspect(self.pattern.as_bytes()).await,
                };
                (Looked::one(seen), Source::One(watch, locker))
            }
        }
    }

    async fn scan(&self, locker: &Locker) -> Looked {
        let mut looked = Looked::default();
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

    fn heading(&self, what: &str) -> Row {
        let pattern = plain(self.pattern.as_bytes());
        let wide = format!("leasehold: locks {pattern}: {what} (q ends)");
        Row { wide, narrow: format!("{what} (q ends): {pattern}") }
    }

    fn fill(&self, page: &mut Page, looked: &Looked) {
        let count = looked.locks.len();
        let what = match (&looked.error, looked.is_all) {
            (Some(_), _) => "no server can be asked".to_owned(),
            (None, true) => format!("{count} held"),
            (None, false) if looked.is_cut_off => format!("more than {count} held"),
            (None, false) => format!("{count} seen, but too few servers could be asked"),
        };
        let failures = looked.failures.iter();
        let failures = failures.map(|failure| format!("{}: {}", failure.server, failure.reason));
        let mut heads = vec![self.heading(&what)];
        heads.extend(failures.map(Row::plain));
        heads.push(Row { wide: show::HEADING.into(), narrow: show::NARROW_HEADING.into() });
        let row = |view| Row { wide: show::row(view), narrow: show::narrow_row(view) };
        page.set(heads, looked.locks.values().map(row).collect());
    }
}

/// The present in UTC, such as `2026-01-31T23:59:59Z`.
#[expect(clippy::disallowed_methods, reason = "it is told, and nothing is decided by it")]
fn time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    in_words(now.as_secs())
}

/// Seconds since 1970 as a date and a time of day.
fn in_words(seconds: u64) -> String {
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
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
    /// Somebody pressed it.
    Key(u8),
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
                Some(key) => Event::Key(key),
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
                Event::Key(_) | Event::Other => {}
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
    fn a_time_is_a_date_and_a_time_of_day() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_795_322_511, "2026-11-22T04:41:51Z"),
        ];
        for (seconds, expected) in table {
            assert_eq!(in_words(seconds), expected);
        }
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
