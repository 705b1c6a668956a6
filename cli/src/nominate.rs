//! `leasehold nominate`: which candidate leads next.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::exit::Failure;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::words::complain;

/// Puts a candidate of an election first in line, whatever its priority.
///
/// It leads when the present leader's command ends: nominate, then end that command. A candidate with a
/// priority that comes between the two goes before one with a smaller priority.
///
/// Exit code: 1 if no candidate with this name waits; 69 if no server answers, 77 if they refuse the
/// login or a right, 78 if an option or URL is wrong; 64 for a wrong command line.
#[derive(Debug, clap::Args)]
pub struct Nominate {
    /// Name of the election
    name: OsString,

    /// Name of the candidate, as it gave it by --as
    candidate: String,
}

impl Nominate {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        let locker = servers.builder(Some(PIPES_WITHIN)).await?.connect_for_inspection().await?;
        if locker.elect(self.name.as_bytes()).nominate(&self.candidate).await? {
            return Ok(0);
        }
        complain(&format!("no candidate \"{}\" waits", self.candidate.escape_debug()));
        Ok(crate::exit::CONFLICT)
    }
}
