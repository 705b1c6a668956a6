//! `leasehold list`: which locks are held, and which primitives exist beside locks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::exit::{Failure, UNAVAILABLE};
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::seen::Scan;
use crate::servers::Servers;
use crate::show;
use crate::words::complain;

/// Lists the locks that are held, then what is kept beside locks: rate limits, jobs, requests under
/// idempotency keys, latches and barriers.
///
/// Scans the keys of every server, 256 at a time (SCAN): this changes nothing and blocks no other
/// client. Locks of other libraries are left out, because their values look like any other value;
/// `inspect` shows them.
///
/// Exit code: 69 if too few servers could be scanned to find everything, unless --limit has cut the list off.
#[derive(Debug, clap::Args)]
pub struct List {
    #[command(flatten)]
    look: Look,

    /// Print one JSON object per lock or other, one per line
    #[arg(long)]
    json: bool,

    /// Maximum number to list
    #[arg(long, value_name = "LOCKS")]
    limit: Option<usize>,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ quotes the next character
    #[arg(default_value = "*")]
    pattern: OsString,
}

impl List {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        let locker = self.look.connect(servers).await?;
        let mut all = Scan::new(&locker, self.pattern.as_bytes());
        let mut said = 0;
        while let Some(seen) = all.next().await? {
            if self.limit.is_some_and(|limit| said >= limit) {
                complain_of(&all.failures());
                complain(&format!("there are more than {said}"));
                return Ok(0);
            }
            if self.json {
                say(&seen.json())?;
            } else {
                if said == 0 {
                    say(show::HEADING)?;
                }
                say(&seen.row())?;
            }
            said += 1;
        }
        complain_of(&all.failures());
        Ok(if all.is_complete() { 0 } else { UNAVAILABLE })
    }
}
