//! Messages to the user, on standard error.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stderr};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Holder};
use nix::unistd::{gethostname, getppid};

/// Messages that are not fully written, in order.
struct Unsaid {
    texts: VecDeque<String>,
    /// Whether a thread is writing them.
    is_written: bool,
}

static UNSAID: Mutex<Unsaid> = Mutex::new(Unsaid { texts: VecDeque::new(), is_written: false });
static WRITTEN: Condvar = Condvar::new();
/// Maximum unwritten messages, if nobody reads during a long command; far more than normal use has.
const UNSAID_MAX: usize = 1000;
/// Maximum wait for the reader at the end, which may be stopped for ever.
const READER_MAX: Duration = Duration::from_secs(10);

/// Prints an error. A closed standard error is no failure.
pub fn complain(text: &str) {
    tell(format!("leasehold: {text}\n"));
}

/// Writes to standard error without waiting for its reader, which may be stopped: leases are renewed and waits end in
/// time. [`said`] waits for the rest.
pub fn tell(text: String) {
    let mut unsaid = unsaid();
    if unsaid.texts.len() < UNSAID_MAX {
        unsaid.texts.push_back(text);
    }
    if std::mem::replace(&mut unsaid.is_written, true) {
        return;
    }
    drop(unsaid);
    if thread::Builder::new().spawn(write).is_err() {
        write();
    }
}

fn unsaid() -> MutexGuard<'static, Unsaid> {
    UNSAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write() {
    loop {
        let mut now = unsaid();
        let Some(text) = now.texts.front().cloned() else {
            now.is_written = false;
            return;
        };
        drop(now);
        let _ = stderr().write_all(text.as_bytes());
        unsaid().texts.pop_front();
        WRITTEN.notify_all();
    }
}

/// Waits until all messages are written, for at most [`READER_MAX`].
pub fn said() {
    let is_left = |unsaid: &mut Unsaid| !unsaid.texts.is_empty();
    drop(WRITTEN.wait_timeout_while(unsaid(), READER_MAX, is_left));
}

/// Prints a message only to a terminal.
pub fn hint(text: &str) {
    if stderr().is_terminal() {
        complain(text);
    }
}

/// Another party's text, escaped for a terminal.
pub fn harmless(text: &str) -> String {
    text.chars().flat_map(show).collect()
}

/// Another party's text, escaped for a terminal and cut.
pub fn plain(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    let text = String::from_utf8_lossy(bytes);
    let mut whole = text.chars().flat_map(show);
    let mut shown: String = whole.by_ref().take(LONGEST).collect();
    if whole.next().is_some() {
        shown.push_str("...");
    }
    shown
}

fn show(c: char) -> impl Iterator<Item = char> {
    let escaped = !is_harmless(c) || c == '\u{fffd}';
    let plain = (!escaped).then_some(c);
    plain.into_iter().chain(escaped.then(|| c.escape_default()).into_iter().flatten())
}

/// Whether a terminal prints it without any other effect.
pub fn is_harmless(c: char) -> bool {
    !c.is_control() && !is_formatting(c)
}

/// Invisible characters that change how others look.
fn is_formatting(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The holder of the lock that this error is about.
pub fn holder(error: &Error) -> String {
    let Some(holder) = error.report().holder() else { return "another client".to_owned() };
    let Holder { owner, label, remaining, .. } = holder;
    let who = label.as_deref().unwrap_or(owner);
    let lasts = match remaining {
        Some(remaining) => format!("for another {} s unless it is renewed", remaining.as_secs()),
        None => "with no expiry".to_owned(),
    };
    format!("{}, {lasts}", plain(who.as_bytes()))
}

/// This process's label for other clients: the host and a process id.
pub fn label_of(process: impl std::fmt::Display) -> String {
    format!("{}:{process}", host())
}

pub fn host() -> String {
    let host = gethostname().unwrap_or_else(|_| "host".into());
    host.to_string_lossy().into_owned()
}

/// Whether the parent's job has the terminal, as far as known: this process has left that job.
fn is_in_front() -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", getppid())).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let words = stat.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
    match words.collect::<Vec<_>>()[..] {
        [_, _, group, _, _, in_front, ..] => in_front == group || in_front == "-1",
        _ => true,
    }
}

/// The line that is shown during a wait.
pub struct Waiting {
    text: String,
    is_live: bool,
}

impl Waiting {
    /// Shows the lock and its holder, or the reason for the wait.
    pub fn begin(names: &[&[u8]], error: &Error) -> Self {
        let text = if error.kind() == ErrorKind::Contended {
            let all: Vec<String> = names.iter().map(|name| plain(name)).collect();
            let what = if names.len() > 1 { all.join(" or ") } else { all.concat() };
            format!("leasehold: waiting for {what}, held by {}", holder(error))
        } else {
            format!("leasehold: waiting for servers: {error}")
        };
        let waiting = Self { text, is_live: stderr().is_terminal() && is_in_front() };
        if !waiting.is_live {
            tell(format!("{}\n", waiting.text));
        }
        waiting
    }

    /// Updates the time waited, if a terminal shows it.
    pub fn show(&self, waited: Duration) {
        // A stopped terminal gets no line with an old time later.
        if self.is_live && unsaid().texts.is_empty() && is_in_front() {
            tell(format!("\r{} ({} s)", self.text, waited.as_secs()));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_live && is_in_front() {
            tell("\n".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_shown_and_does_nothing() {
        assert_eq!(plain(b"nightly backup"), "nightly backup");
        assert_eq!(plain("h\u{e9}".as_bytes()), "h\u{e9}");
        assert_eq!(plain(b"\x1b[2J\r\n\x07"), r"\u{1b}[2J\r\n\u{7}");
        assert_eq!(plain(b"\xff"), r"\u{fffd}");
        assert_eq!(plain("\u{202e}x".as_bytes()), r"\u{202e}x");
        let long = plain(&[b'a'; 10_000]);
        assert!(long.len() < 200 && long.ends_with("..."));
        // It is longer only once escaped.
        assert!(plain(&[0x1b; 30]).ends_with("..."));
    }
}
