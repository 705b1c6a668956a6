//! What can be said on the command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::doctor::Doctor;
use crate::inspect::Inspect;
use crate::list::List;
use crate::pages::{Completions, Man};
use crate::release::Release;
use crate::servers::Servers;
use crate::times::{TTL, duration};
use crate::watch::Watch;

/// Distributed locks on Redis.
///
/// A lock is a lease: permission that ends at a known time, and is renewed until it is given back.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, propagate_version = true)]
pub struct Args {
    #[command(flatten)]
    pub servers: Servers,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Doctor(Doctor),
    Bench(Bench),
    Inspect(Inspect),
    List(List),
    Watch(Watch),
    Release(Release),
    Completions(Completions),
    Man(Man),
}

/// Runs a command while holding a lock.
///
/// The lease is renewed while the command runs, and given back when it ends. The command finds
/// LEASEHOLD_NAME, LEASEHOLD_FENCE (a number that grows with every lease: give it to what the
/// command writes to) and LEASEHOLD_DEADLINE_MS (until when the lease was good when the command
/// began, in milliseconds since 1970; it is renewed) in its environment.
///
/// If the lease cannot be kept, the command and all that it started get TERM while a third of the
/// TTL is left, and KILL before it ends. So does what it leaves behind when it ends by itself,
/// without -o. A job that is stopped at the terminal keeps its lock.
///
/// The exit code is the command's, and a signal that ended it ends leasehold; 1 (or what -E says)
/// where the lock is another's; 75 where the lease was lost; 69 where too few servers can be
/// reached, 77 where they refuse us, 78 where what was given makes no sense; 126 and 127 where the
/// command cannot be run or found; 64 for a command line that cannot be read.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Run {
    /// Fail at once if another holds the lock
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub nonblock: bool,

    /// Fail if the lock cannot be had within this time: seconds, or with a unit: 500ms, 5m. Servers
    /// that are down may come back until then
    #[arg(short, long, visible_alias = "timeout", value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,

    /// The exit code where the lock cannot be had (-n, -w)
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1)]
    pub conflict_exit_code: u8,

    /// How long the lock stays taken if all of our processes end at once; it is renewed before
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    pub ttl: Duration,

    /// End the command, and give the lock back, when the lock has been held for this long; TERM comes a
    /// third of the TTL before
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub hold_at_most: Option<Duration>,

    /// Who we are, for those who wait; without it the host's name and our process
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,

    /// Say nothing while waiting, nor that the lock could not be had (-n, -w)
    #[arg(short, long)]
    pub quiet: bool,

    /// Leave alone what COMMAND leaves running in the background, without the lock; else it is ended
    #[arg(short = 'o', long)]
    pub close: bool,

    /// A command for the shell, in the place of COMMAND
    #[arg(short = 'c', long, value_name = "LINE", conflicts_with = "words")]
    pub command: Option<OsString>,

    /// The lock
    pub name: OsString,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "command"
    )]
    pub words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_follows_the_name_is_the_commands() {
        for line in ["run -n job -- tar -n x", "run -n job tar -n x"] {
            let words = ["leasehold"].into_iter().chain(line.split(' '));
            let Command::Run(run) = Args::try_parse_from(words).unwrap().command else {
                panic!("{line}")
            };
            assert!(run.nonblock && run.name == "job");
            assert_eq!(run.words, ["tar", "-n", "x"]);
        }
        for line in ["run", "run job", "run -n -w 1 job true", "run -c true job true"] {
            let words = ["leasehold"].into_iter().chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
