//! `leasehold list`: which locks are held.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::exit::{Failure, UNAVAILABLE};
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::servers::Servers;
use crate::words::complain;
use crate::{json, show};

/// Lists the locks that are held, as they are found.
///
/// Every server's keys are gone through, some hundred at a time (SCAN): nothing is changed, and
/// nobody is kept waiting, however many there are. What other libraries keep is left out, because
/// by its value alone it cannot be told from anything else; `inspect` shows it.
///
/// The exit code is 69 where too few servers could be gone through to have found all.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct List {
    #[command(flatten)]
    look: Look,

    /// Say it as one JSON object for each lock, each on a line
    #[arg(long)]
    json: bool,

    /// Stop after so many locks
    #[arg(long, value_name = "LOCKS")]
    limit: Option<usize>,

    /// Which names: * is any text, ? one character, [a-c] one of these, \ takes the next for itself
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
