//! `leasehold inspect`: the holder of a lock, and the primitives beside it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use leasehold::inspect::{LockState, ServerFailure};

use crate::exit::{CONFLICT, Failure, UNAVAILABLE};
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::servers::Servers;
use crate::words::complain;
use crate::{json, show};

/// Shows the holder of a lock, on how many servers, with which token, and how long the lease lasts.
///
/// Shows what is kept under the name beside the lock, too: a rate limit, a job, a request under an
/// idempotency key, a latch or a barrier.
///
/// Changes nothing on any server. Exit code: 0 if the lock is held, 1 if it is free, 69 if too few
/// servers answer to tell. With --wait, 0 once it is free.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    #[command(flatten)]
    look: Look,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Wait until nobody holds the lock, without a place in its line; servers that are down may come back
    /// meanwhile
    #[arg(short, long)]
    wait: bool,

    /// Name of the lock
    name: OsString,
}

impl Inspect {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        let locker = match self.wait {
            true => self.look.wait(servers).await?,
            false => self.look.connect(servers).await?,
        };
        let name = self.name.as_bytes();
        let view = match self.wait {
            true => locker.watch(name).until_free().await?,
            false => locker.inspect(name).await?,
        };
        let (beside, failures) = match locker.inspect_primitives(name).await {
            Ok(seen) => (seen.found, seen.failures),
            Err(error) => {
                complain(&error.to_string());
                Default::default()
            }
        };
        let is_new = |failure: &ServerFailure| {
            !view.failures.iter().any(|known| known.server == failure.server)
        };
        complain_of(&failures.into_iter().filter(is_new).collect::<Vec<_>>());
        if self.json {
            say(&json::whole(&view, &beside))?;
        } else {
            let mut lines = show::whole(&view);
            lines.extend(beside.iter().map(show::beside));
            say(&lines.join("\n"))?;
        }
        Ok(match view.state {
            _ if self.wait => 0,
            LockState::Held => 0,
            LockState::Free | LockState::Partial => CONFLICT,
            _ => UNAVAILABLE,
        })
    }
}
