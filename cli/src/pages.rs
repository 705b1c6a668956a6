//! `leasehold completions` and `leasehold man`: made from what reads the command line itself.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use crate::args::Args;
use crate::exit::Failure;
use crate::output::put;

/// Writes what completes command lines of leasehold in a shell.
///
/// For bash: leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Writes the manual: its first page, or all pages into a directory.
///
/// To read it: leasehold man | man -l -
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Where to put leasehold.1 and a page for each of its commands
    directory: Option<PathBuf>,
}

fn command() -> Command {
    let mut command = Args::command();
    command.build();
    command
}

impl Completions {
    pub fn perform(self) -> Result<u8, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "leasehold", &mut script);
        put(&script)?;
        Ok(0)
    }
}

impl Man {
    pub fn perform(self) -> Result<u8, Failure> {
        if let Some(directory) = self.directory {
            let written = clap_mangen::generate_to(Args::command(), directory);
            written.map_err(|error| Failure::System("the manual cannot be written", error))?;
            return Ok(0);
        }
        let mut page = Vec::new();
        Page::new(command()).render(&mut page).map_err(Failure::Output)?;
        put(&page)?;
        Ok(0)
    }
}
