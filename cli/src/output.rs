//! Standard output, which may be closed before all is said.

use std::io::{Write, stdout};

use crate::exit::Failure;

/// One line.
pub fn say(line: &str) -> Result<(), Failure> {
    writeln!(stdout(), "{line}").map_err(Failure::Output)
}

/// Text of several lines, or what is for the terminal itself.
pub fn put(text: &[u8]) -> Result<(), Failure> {
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
