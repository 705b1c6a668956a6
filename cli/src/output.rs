//! Standard output, whose reader may close it early.

use std::io::{Write, stdout};

use crate::exit::Failure;
use crate::signals;
use crate::words::said;

/// Writes one line.
pub fn say(line: &str) -> Result<(), Failure> {
    put(format!("{line}\n").as_bytes())
}

/// Writes text of several lines. From here on signals end this process, because a stopped reader may block it.
pub fn put(text: &[u8]) -> Result<(), Failure> {
    signals::let_caught_through();
    // At a terminal the messages on standard error come first.
    said();
    show(text)
}

/// Writes without waiting for messages on standard error.
pub fn show(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = stdout();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// As `put`, for results that the exit code has too: a closed output is no failure.
pub fn report(text: &str) -> Result<(), Failure> {
    match put(text.as_bytes()) {
        Err(failure) if failure.is_silent() => Ok(()),
        other => other,
    }
}
