//! `leasehold once`: a command that one of many hosts runs.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};

use leasehold::once::{JobOutcome, Slot};

use crate::exit::Failure;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::succeed::{find, succeed_as};
use crate::times::duration;
use crate::words::hint;

/// Runs a command at most once per slot of a schedule, however many hosts ask.
///
/// The slots are those of a grid: with 1h the full hours, UTC, by the server's clock. The first host that
/// asks within a slot runs the command; no lock is held while it runs, and none after it. leasehold becomes
/// the command: nothing of it stays while the command runs. The command's environment has LEASEHOLD_NAME
/// and LEASEHOLD_SLOT (the beginning of the slot, in seconds since 1970).
///
/// Exit code: the command's; 1 (or the code of -E) if the slot is taken; 69 if no server answers, 77 if it
/// refuses the login or a right, 78 if an option or URL is wrong; 126 or 127 if the command cannot be run
/// or found; 64 for a wrong command line.
#[derive(Debug, clap::Args)]
pub struct Once {
    /// Exit code if the slot is taken
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::CONFLICT)]
    conflict_exit_code: u8,

    /// Name of the job
    name: OsString,

    /// From one slot to the next: 30s, 5m, 24h; at most 168h
    #[arg(value_parser = duration)]
    period: Duration,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

impl Once {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        find(&self.words)?;
        let locker = servers.builder(Some(PIPES_WITHIN)).await?.connect().await?;
        let job = locker.once(self.name.as_bytes(), Slot::every(self.period));
        // The claim is all: the command runs after this closure.
        match job.run(async |run| Ok::<_, Infallible>(run.slot)).await? {
            JobOutcome::Ran { output: Ok(slot), .. } => {
                let seconds = slot.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let name = ("LEASEHOLD_NAME", self.name);
                let slot = ("LEASEHOLD_SLOT", seconds.to_string().into());
                succeed_as(&self.words, [name, slot])
            }
            _ => {
                hint("another host has run it in this slot");
                Ok(self.conflict_exit_code)
            }
        }
    }
}
