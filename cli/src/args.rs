//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::doctor::Doctor;
use crate::elect::Elect;
use crate::inspect::Inspect;
use crate::limit::Limit;
use crate::list::List;
use crate::nominate::Nominate;
use crate::once::Once;
use crate::pages::{Completions, Man};
use crate::release::Release;
use crate::servers::Servers;
use crate::times::{TTL, duration};
use crate::watch::Watch;

/// Distributed locks on Redis.
///
/// A lock is a lease: it ends at a known time unless it is renewed.
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
    Elect(Elect),
    Nominate(Nominate),
    Once(Once),
    Limit(Limit),
    Doctor(Doctor),
    Bench(Bench),
    Inspect(Inspect),
    List(List),
    Watch(Watch),
    Release(Release),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// The number of words at the end of the command line that belong to a command to run.
    pub fn foreign(&self) -> usize {
        match self {
            Self::Run(run) => run.words.len(),
            Self::Elect(elect) => elect.words.len(),
            Self::Once(once) => once.words.len(),
            Self::Limit(limit) => limit.words.len(),
            _ => 0,
        }
    }

    /// The option or command that needs scripts, if one does.
    pub fn takes_scripts(&self) -> Option<&'static str> {
        match self {
            Self::Run(run) => run.takes_scripts(),
            Self::Elect(_) => Some("elect"),
            Self::Nominate(_) => Some("nominate"),
            Self::Once(_) => Some("once"),
            Self::Limit(_) => Some("limit"),
            Self::Inspect(_) => Some("inspect"),
            Self::Release(_) => Some("release"),
            Self::List(_) => Some("list"),
            Self::Watch(_) => Some("watch"),
            Self::Doctor(_) | Self::Bench(_) | Self::Completions(_) | Self::Man(_) => None,
        }
    }
}

/// Runs a command while holding a lock.
///
/// leasehold renews the lease while the command runs, and releases the lock when the command ends.
/// The command's environment has LEASEHOLD_NAME, LEASEHOLD_FENCE (the fencing token, which grows with
/// every lease: pass it to the resource that the command writes to) and LEASEHOLD_DEADLINE_MS (when
/// the first lease ends unless it is renewed, in milliseconds since 1970).
///
/// leasehold waits for whatever may pass: another holder, servers that are down or do not answer, servers
/// that may not vote yet because they restarted. Without -w, servers may fail for one TTL in a row.
///
/// If the lease cannot be renewed, the command and all processes that it started get TERM when a
/// third of the TTL is left, and KILL before the lease ends. Background processes that the command
/// leaves get both when it ends, and a line on standard error names them, unless -o is given. A job that
/// is stopped at the terminal keeps its lock.
///
/// When the command has ended, leasehold releases the lock, again and again for up to 5s if servers fail.
/// If that is not enough, a line on standard error says so, and the lock stays taken until the TTL is over.
///
/// Exit code: the command's, also if the lock could not be released, and a signal that ended the command
/// ends leasehold too; 1 (or the code of -E) if another client holds the lock; 75 if the lease was lost;
/// 69 if too few servers answer, 73 if the ticket cannot be written, 77 if the servers refuse the login or
/// a right, 78 if an option or URL is wrong; 126 or 127 if the command cannot be run or found; 64 for a
/// wrong command line.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// Of a candidate: leasehold elect
    #[arg(skip)]
    pub priority: Option<u8>,

    /// Fail at once if another client holds the lock
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub nonblock: bool,

    /// Fail if the lock cannot be acquired within this time: seconds, or with a unit: 500ms, 5m. Connecting
    /// is part of it, and may take 1s if the time is shorter
    #[arg(short, long, visible_alias = "timeout", value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,

    /// Another lock that will do if NAME is held; may be given several times. The command runs under the
    /// first that is free: LEASEHOLD_NAME says which
    #[arg(long = "or", value_name = "OTHER")]
    pub or: Vec<OsString>,

    /// Share the lock with other runs that have this option; a run without it has the lock alone
    #[arg(short, long, conflicts_with_all = ["permits", "steal", "adopt", "ticket", "or"])]
    pub shared: bool,

    /// Run at most this many commands at a time under NAME: all have to give the same number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["steal", "adopt", "ticket", "or"])]
    pub permits: Option<u32>,

    /// Exit code if another client holds the lock (-n, -w)
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1)]
    pub conflict_exit_code: u8,

    /// How long the lock stays taken if this host fails; leasehold renews it before that
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    pub ttl: Duration,

    /// Keep the lock from others until this long after it was acquired, even if the command ends sooner:
    /// with -n, one of many hosts runs a line that all of them have in their crontab
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub hold_at_least: Option<Duration>,

    /// End the command and release the lock when it has been held for this long; TERM comes a third of
    /// the TTL before, or of this time if it is shorter
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub hold_at_most: Option<Duration>,

    /// Keep the lock from others for this long after a lease that leasehold could not release, because it
    /// was killed or cut off: for resources that check no fencing token
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lock_delay: Option<Duration>,

    /// Take the lock from its holder, without waiting: for a holder that is known to be dead or stuck
    #[arg(long, conflicts_with_all = ["nonblock", "wait", "adopt", "or"])]
    pub steal: bool,

    /// Take the lock by the ticket in this file (of --ticket), without waiting
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nonblock", "wait", "or"])]
    pub adopt: Option<PathBuf>,

    /// If the command ends with 0, write a ticket to this file instead of releasing the lock: until
    /// --ticket-for is over, only a run with --adopt gets the lock. Keep the file secret. If the ticket
    /// cannot be written, the lock is released, and the exit code is 73
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,

    /// How long the ticket is good
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, requires = "ticket")]
    pub ticket_for: Duration,

    /// The holder's name, as others see it; without it the host name and process id
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,

    /// Print nothing while waiting, nor if the lock could not be acquired (-n, -w)
    #[arg(short, long)]
    pub quiet: bool,

    /// Let background processes of COMMAND run on without the lock, instead of ending them
    #[arg(short = 'o', long)]
    pub close: bool,

    /// Run this line in the shell, instead of COMMAND
    #[arg(short = 'c', long, value_name = "LINE", conflicts_with = "words")]
    pub command: Option<OsString>,

    /// Name of the lock
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

impl Run {
    /// Whether it waits for a reason that may pass.
    pub fn waits(&self) -> bool {
        !self.nonblock && !self.steal && self.adopt.is_none()
    }

    /// The time of which a third is left when TERM comes: the TTL, or --hold-at-most if that is shorter.
    pub fn span(&self) -> Duration {
        self.hold_at_most.map_or(self.ttl, |limit| limit.min(self.ttl))
    }

    fn takes_scripts(&self) -> Option<&'static str> {
        let options = [
            (self.shared, "run --shared"),
            (self.permits.is_some(), "run --permits"),
            (self.steal, "run --steal"),
            (self.adopt.is_some(), "run --adopt"),
            (self.ticket.is_some(), "run --ticket"),
        ];
        options.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }

    /// The locks of which one is enough, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &OsString> {
        [&self.name].into_iter().chain(&self.or)
    }
}

/// A candidate is a run that waits for its office.
impl From<Elect> for Run {
    fn from(elect: Elect) -> Self {
        Self {
            priority: Some(elect.priority),
            nonblock: false,
            wait: elect.wait,
            or: Vec::new(),
            conflict_exit_code: elect.conflict_exit_code,
            ttl: elect.ttl,
            hold_at_least: None,
            hold_at_most: None,
            lock_delay: None,
            shared: false,
            permits: None,
            steal: false,
            adopt: None,
            ticket: None,
            ticket_for: Duration::ZERO,
            label: elect.candidate,
            quiet: elect.quiet,
            close: false,
            command: None,
            name: elect.name,
            words: elect.words,
        }
    }
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
        let no_ticket = ["run --shared --ticket t job true", "run --permits 2 --ticket t job true"];
        let no_thief = ["run --steal -n job true", "run --adopt t --steal job true"];
        for line in no_ticket.into_iter().chain(no_thief) {
            let words = ["leasehold"].into_iter().chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
        for line in ["run", "run job", "run -n -w 1 job true", "run -c true job true"] {
            let words = ["leasehold"].into_iter().chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
