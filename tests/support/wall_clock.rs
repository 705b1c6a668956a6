//! The wall clock of one real server, which a test sets forward and back while the server runs.
//!
//! A small library (`wall_clock.c`), built by `cc` into the server's directory, stands between the
//! server and the system's clock. What Redis 7.0 does by that clock: keys expire by it (it is read
//! once per command, and once for all of a script), `TIME` and `uptime_in_seconds` say it.
//! Its timers and the limits on scripts go by the monotonic clock, which is left alone.

use super::preload;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

const SOURCE: &str = include_str!("wall_clock.c");

/// In a server's directory.
const OFFSET: &str = "wall_clock.offset";
const LIBRARY: &str = "wall_clock.so";

/// Builds the library in `directory`, if that was not done; the words to start a server behind.
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

/// Sets the clock of the server of this directory to this number of seconds before or after the system's.
pub fn set(directory: &Path, seconds_ahead: i64) {
    let nanos = seconds_ahead * 1_000_000_000;
    let offset = File::options().write(true).open(directory.join(OFFSET));
    let mut offset = offset.expect("the server was started with wall_clock()");
    // One write of eight bytes into a page that the server has mapped.
    offset.write_all(&nanos.to_ne_bytes()).expect("the server's directory can be written");
}
