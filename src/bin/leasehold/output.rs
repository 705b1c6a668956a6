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
