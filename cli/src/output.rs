//! Standard output, which may be closed before all is said.

use std::io::{Write, stdout};

use crate::exit::Failure;
use crate::signals;
use crate::words::said;

/// One line.
pub fn say(line: &str) -> Result<(), Failure> {
    put(format!("{line}\n").as_bytes())
}

/// Text of several lines. From here on signals end this process, which may wait for a reader that stands still.
pub fn put(text: &[u8]) -> Result<(), Failure> {
    signals::let_caught_through();
    // At a terminal both are read in order.
    said();
    show(text)
}

/// What is for the terminal itself.
pub fn show(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = stdout();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// The same, of what the exit code says too: that nobody reads it any more changes nothing then.
pub fn report(text: &str) -> Result<(), Failure> {
    match put(text.as_bytes()) {
        Err(failure) if failure.is_silent() => Ok(()),
        other => other,
    }
}
