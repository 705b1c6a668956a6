//! Sets the wall clock of a real server forward and back while it runs.
//!
//! A small library (`wall_clock.c`), built by `cc` into the server's directory, replaces the system's clock for the
//! server. Redis 7.0 uses that clock for the expiry of keys (it reads it once per command, and once for all of a
//! script), `TIME` and `uptime_in_seconds`. Its timers and the limits on scripts use the monotonic clock, which is left
//! alone.

use super::preload;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

const SOURCE: &str = include_str!("wall_clock.c");

/// A file in a server's directory.
const OFFSET: &str = "wall_clock.offset";
const LIBRARY: &str = "wall_clock.so";

/// Builds the library in `directory` if missing; returns the words to put before a server's command.
pub fn prefix(directory: &Path) -> Vec<OsString> {
    let (library, offset) = (directory.join(LIBRARY), directory.join(OFFSET));
    if !library.exists() {
        preload::build(SOURCE, &library);
        std::fs::write(&offset, [0; 8]).expect("the server's directory can be written");
    }
    let variable = |name: &str, path: &Path| {
        let mut variable = OsString::from(name);
        variable.push(path);
        variable
    };
    vec![
        "env".into(),
        variable("LD_PRELOAD=", &library),
        variable("LEASEHOLD_WALL_CLOCK=", &offset),
    ]
}

/// Sets the clock of the server of this directory to this number of seconds ahead of the system's, or behind if
/// negative.
pub fn set(directory: &Path, seconds_ahead: i64) {
    let nanos = seconds_ahead * 1_000_000_000;
    let offset = File::options().write(true).open(directory.join(OFFSET));
    let mut offset = offset.expect("the server was started with wall_clock()");
    // One write of eight bytes into a page that the server has mapped.
    offset.write_all(&nanos.to_ne_bytes()).expect("the server's directory can be written");
}
