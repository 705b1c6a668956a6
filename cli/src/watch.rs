//! `leasehold watch`: which locks are held, and what changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::inspect::{LockState, LockView, LockWatch, Primitives, ServerFailure};
use leasehold::{Error, ErrorKind, Locker};
use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{Signal as Caught, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::exit::{End, Failure};
use crate::look::Look;
use crate::output::say;
use crate::page::{Page, Row};
use crate::screen::{Screen, keys};
use crate::seen::{Identity, Scan, Seen, gone};
use crate::servers::Servers;
use crate::show;
use crate::signals::Signals;
use crate::times::{duration, in_words};
use crate::words::{complain, plain};

/// Shows the locks that are held and what is kept beside locks, live: q or Ctrl-C ends it; j, k, b,
/// space, g, G and the arrows scroll as in a pager.
///
/// Scans the keys of every server again and again, as `list` does once. Of one name, without * ? [ or \,
/// servers tell of changes of the lock, they are asked what is beside it, and nothing is scanned. If its
/// output is no terminal, prints one line with the time (UTC) for every change that it sees.
#[derive(Debug, clap::Args)]
pub struct Watch {
    #[command(flatten)]
    look: Look,

    /// Pause between two scans; of one name, how often the time left and what is beside the lock are shown
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,

    /// Maximum number to show
    #[arg(long, value_name = "LOCKS", default_value_t = 1000)]
    limit: usize,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ quotes the next character
    #[arg(default_value = "*")]
    pattern: OsString,
}

/// Beyond this many times --limit, known locks that are not shown are forgotten, because a look that is cut off never
/// sees them go.
const KNOWN_MAX: usize = 8;

/// Where looks go.
enum Source {
    /// All keys.
    Scan(Locker),
    /// One name; without the second locker, this user may not see the primitives beside the lock.
    One(Box<LockWatch>, Locker, Option<Locker>),
}

/// The result of one look.
#[derive(Default)]
struct Looked {
    /// Ordered by name.
    found: BTreeMap<Identity, Seen>,
    /// Whether all locks were found, and all primitives.
    are_all: (bool, bool),
    is_cut_off: bool,
    failures: Vec<ServerFailure>,
    error: Option<Error>,
}

impl Looked {
    fn one(seen: Result<LockView, Error>, beside: Option<Primitives>) -> Self {
        let mut looked = Self::default();
        match seen {
            Ok(view) => {
                looked.failures.clone_from(&view.failures);
                looked.are_all.0 = view.state != LockState::Unknown;
                if !view.holders.is_empty() {
                    looked.add(Seen::Lock(view));
                }
            }
            Err(error) => looked.error = Some(error),
        }
        // The failures of primitives are left to `inspect`.
        looked.are_all.1 = beside.as_ref().is_some_and(|beside| beside.failures.is_empty());
        for view in beside.into_iter().flat_map(|beside| beside.found) {
            looked.add(Seen::Primitive(view));
        }
        looked
    }

    /// Of several states of one primitive, keeps the first, which most servers show.
    fn add(&mut self, seen: Seen) {
        self.found.entry(seen.identity()).or_insert(seen);
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
            false => Source::One(Box::new(locker.watch(name)), locker.clone(), Some(locker)),
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
                        // Gives the terminal back to the shell before stopping.
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
        let mut pause = Duration::ZERO;
        let (mut known, mut was_failing) = (BTreeMap::new(), false);
        loop {
            let looked;
            (looked, source) = self.look_after(pause, source).await;
            pause = self.interval;
            if let (Some(error), false) = (&looked.error, was_failing) {
                complain(&error.to_string());
            }
            was_failing = looked.error.is_some();
            let now = looked.found.into_iter().map(|(name, seen)| (name, Line::of(&seen)));
            let most = self.limit.saturating_mul(KNOWN_MAX);
            for line in changes(&mut known, now.collect(), looked.are_all, most) {
                say(&format!("{} {line}", time()))?;
            }
        }
    }

    /// Looks after a pause, or earlier if servers push a change.
    async fn look_after(&self, pause: Duration, source: Source) -> (Looked, Source) {
        match source {
            Source::Scan(locker) => {
                sleep(pause).await;
                (self.scan(&locker).await, Source::Scan(locker))
            }
            Source::One(mut watch, locker, mut beside) => {
                let seen = match timeout(pause, watch.changed()).await {
                    Ok(seen) => seen,
                    Err(_) => locker.inspect(self.pattern.as_bytes()).await,
                };
                let mut found = None;
                if let Some(locker) = &beside {
                    found = Some(locker.inspect_primitives(self.pattern.as_bytes()).await);
                }
                // After a refusal it is not asked again, because servers log each refusal.
                beside.take_if(
                    |_| matches!(&found, Some(Err(error)) if error.kind() == ErrorKind::Auth),
                );
                let found = found.and_then(Result::ok);
                (Looked::one(seen, found), Source::One(watch, locker, beside))
            }
        }
    }

    async fn scan(&self, locker: &Locker) -> Looked {
        let mut looked = Looked::default();
        let mut list = Scan::new(locker, self.pattern.as_bytes());
        while !looked.is_cut_off {
            match list.next().await {
                Ok(Some(seen)) if looked.found.len() < self.limit => looked.add(seen),
                Ok(Some(_)) => looked.is_cut_off = true,
                Ok(None) => break,
                Err(error) => {
                    looked.error = Some(error);
                    break;
                }
            }
        }
        looked.are_all = list.are_all();
        looked.failures = list.failures();
        looked
    }

    fn heading(&self, what: &str) -> Row {
        let pattern = plain(self.pattern.as_bytes());
        let wide = format!("leasehold: locks {pattern}: {what} (q ends)");
        Row { wide, narrow: format!("{what} (q ends): {pattern}") }
    }

    fn fill(&self, page: &mut Page, looked: &Looked) {
        let count = looked.found.len();
        let what = match (&looked.error, looked.are_all.0) {
            (Some(_), _) => "no server can be asked".to_owned(),
            (None, _) if looked.is_cut_off => format!("more than {count} held"),
            (None, true) => format!("{count} held"),
            (None, false) => format!("{count} seen, but too few servers could be asked"),
        };
        let failures = looked.failures.iter();
        let failures = failures.map(|failure| format!("{}: {}", failure.server, failure.reason));
        let mut heads = vec![self.heading(&what)];
        heads.extend(failures.map(Row::plain));
        heads.push(Row { wide: show::HEADING.into(), narrow: show::NARROW_HEADING.into() });
        let row = |seen: &Seen| Row { wide: seen.row(), narrow: seen.narrow_row() };
        page.set(heads, looked.found.values().map(row).collect());
    }
}

/// The present in UTC, such as `2026-01-31T23:59:59Z`.
#[expect(clippy::disallowed_methods, reason = "it is told, and nothing is decided by it")]
pub fn time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    in_words(now.as_secs())
}

/// The line for one lock or primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    standing: (&'static str, Option<String>),
    text: String,
}

impl Line {
    fn of(seen: &Seen) -> Self {
        Self { standing: seen.standing(), text: seen.change() }
    }
}

/// The lines for what changed up to `now`, which is then known. What is missing is gone if `now` has all locks, or all
/// primitives.
fn changes(
    known: &mut BTreeMap<Identity, Line>,
    now: BTreeMap<Identity, Line>,
    are_all: (bool, bool),
    known_max: usize,
) -> Vec<String> {
    let mut said = Vec::new();
    if known.len() > known_max {
        known.retain(|name, _| now.contains_key(name));
    }
    known.retain(|name, _| {
        let is_all = if name.1.is_none() { are_all.0 } else { are_all.1 };
        let is_gone = is_all && !now.contains_key(name);
        if is_gone {
            said.push(gone(name));
        }
        !is_gone
    });
    for (name, line) in now {
        if known.get(&name).is_none_or(|before| line.standing != before.standing) {
            said.push(line.text.clone());
        }
        known.insert(name, line);
    }
    said
}

enum Event {
    /// To end in this way.
    End(End),
    /// To stop until SIGCONT.
    Stop,
    /// A key was pressed.
    Key(u8),
    /// To draw again.
    Other,
}

/// The events beside looks.
struct Events {
    signals: Signals,
    /// None without a terminal.
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

    /// The next event.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
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

    /// Waits until it is to end, and how; for when there is no screen.
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

    fn lines(held: &[(&str, &str)]) -> BTreeMap<Identity, Line> {
        let line = |(name, owner): &(&str, &str)| {
            let text = format!("{name}: held by {owner}");
            let line = Line { standing: ("held", Some((*owner).to_owned())), text };
            ((name.as_bytes().to_vec(), None), line)
        };
        held.iter().map(line).collect()
    }

    #[test]
    fn each_change_is_one_line() {
        let mut known = BTreeMap::new();
        let mut said = |held: &[_], is_all| changes(&mut known, lines(held), (is_all, false), 9);
        assert_eq!(said(&[("a", "x"), ("b", "x")], true), ["a: held by x", "b: held by x"]);
        assert_eq!(said(&[("a", "x"), ("b", "x")], true), [""; 0]);
        assert_eq!(said(&[("a", "y")], false), ["a: held by y"]);
        assert_eq!(said(&[("a", "y")], true), ["b: free"]);
        assert_eq!(said(&[], true), ["a: free"]);
    }

    #[test]
    fn locks_are_free_though_not_all_was_seen_of_what_is_beside_locks() {
        let mut known = lines(&[("a", "x")]);
        let line = known.values().next().unwrap().clone();
        known.insert((b"a".to_vec(), Some("latch")), line);
        assert_eq!(changes(&mut known, BTreeMap::new(), (true, false), 9), ["a: free"]);
        assert_eq!(changes(&mut known, BTreeMap::new(), (true, true), 9), ["a: latch: gone"]);
    }

    #[test]
    fn what_is_shown_is_known_however_much_is_forgotten() {
        let mut known = lines(&[("a", "x"), ("b", "x"), ("c", "x")]);
        assert_eq!(changes(&mut known, lines(&[("c", "x")]), (false, false), 2), [""; 0]);
        assert_eq!(changes(&mut known, lines(&[("a", "x")]), (false, false), 2), ["a: held by x"]);
    }
}
