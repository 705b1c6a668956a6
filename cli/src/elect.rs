//! `leasehold elect`: a command that the leader of many hosts runs. It is `leasehold run`, as a candidate.

use std::ffi::OsString;
use std::time::Duration;

use crate::times::{TTL, duration};

/// Runs a command while this host leads.
///
/// Of all hosts that call this, one runs the command. When the command ends, when its host fails or is
/// cut off, the next host runs it: of those that wait, the one with the highest priority, and of equals
/// the one that waits longest. A leader stays, whichever candidates come. To campaign again when the command has
/// ended, start leasehold again, as a service manager does.
///
/// All that is said of the lease, the command's processes and the exit code under leasehold run is true
/// here: the leader holds the lock of this name. LEASEHOLD_FENCE is the term, which is larger than that
/// of all leaders before. leasehold watch NAME shows the leader.
#[derive(Debug, clap::Args)]
pub struct Elect {
    /// Name of the candidate, as others see it; without it the host name and process id
    #[arg(long = "as", value_name = "CANDIDATE")]
    pub candidate: Option<String>,

    /// Priority: of the candidates that wait, the one with the highest leads next, 0 to 255
    #[arg(short, long, value_name = "NUMBER", default_value_t = 0)]
    pub priority: u8,

    /// Fail if this host does not lead within this time: seconds, or with a unit: 500ms, 5m
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,

    /// Exit code if another host leads (-w)
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::CONFLICT)]
    pub conflict_exit_code: u8,

    /// How long nobody leads if the leader's host fails; leasehold renews the lease before that
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    pub ttl: Duration,

    /// Print nothing while another host leads, nor if this one does not lead in time (-w)
    #[arg(short, long)]
    pub quiet: bool,

    /// Name of the election
    pub name: OsString,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    pub words: Vec<OsString>,
}
