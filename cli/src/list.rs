//! `leasehold list`: which locks are held.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::exit::{Failure, UNAVAILABLE};
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::servers::Servers;
use crate::words::complain;
use crate::{json, show};

/// Lists the locks that are held.
///
/// Scans the keys of every server, 256 at a time (SCAN): this changes nothing and blocks no other
/// client. Locks of other libraries are left out, because their values look like any other value;
/// `inspect` shows them.
///
/// Exit code: 69 if too few servers could be scanned to find all locks.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct List {
    #[command(flatten)]
    look: Look,

    /// Print one JSON object per lock, one per line
    #[arg(long)]
    json: bool,

    /// Maximum number of locks to list
    #[arg(long, value_name = "LOCKS")]
    limit: Option<usize>,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ quotes the next character
    #[arg(default_value = "*")]
    pattern: OsString,
}

impl List {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        let locker = self.look.connect(servers).await?;
        let mut locks = locker.list(self.pattern.as_bytes());
        let mut said = 0;
        while let Some(view) = locks.next().await? {
            if self.limit.is_some_and(|limit| said >= limit) {
                complain(&format!("there are more than {said}"));
                return Ok(0);
            }
            if self.json {
                say(&json::of(&view))?;
            } else {
                if said == 0 {
                    say(show::HEADING)?;
                }
                say(&show::row(&view))?;
            }
            said += 1;
        }
        complain_of(locks.failures());
        Ok(if locks.is_complete() { 0 } else { UNAVAILABLE })
    }
}
