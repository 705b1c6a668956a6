//! The `leasehold` command: runs a command under a lock, as flock(1) does with files, and shows the holders of locks.
//!
//! It uses only the library's public interface.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to who calls it")]

mod args;
mod bench;
mod doctor;
mod elect;
mod exit;
mod inspect;
mod json;
mod limit;
mod list;
mod look;
mod nominate;
mod once;
mod output;
mod page;
mod pages;
mod release;
mod run;
mod screen;
mod secret;
mod seen;
mod servers;
mod show;
mod signals;
mod succeed;
mod times;
mod waits;
mod watch;
mod words;

use std::env;
use std::fs::File;
use std::io;
use std::process::ExitCode;

use args::{Args, Command};
use clap::{CommandFactory, Parser};
use exit::{End, Failure};

const NO_RUNTIME: &str = "no runtime could be started";
/// File descriptors of a runtime with its signals.
const DESCRIPTORS: usize = 8;

fn main() -> ExitCode {
    signals::outlive_limits();
    #[cfg(target_os = "linux")]
    secret::keep_name();
    let mut args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::of_usage(&error),
    };
    secret::hide(&mut args.servers.urls, args.command.foreign());
    // A runtime panics if it cannot open these, so this checks first.
    let room: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    if let Err(error) = room.map(drop) {
        words::complain(&Failure::System(NO_RUNTIME, error).to_string());
        words::said();
        return ExitCode::from(exit::SYSTEM);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(perform(args)),
        Err(error) => Err(Failure::System(NO_RUNTIME, error)),
    };
    let end = outcome.unwrap_or_else(|failure| {
        if !failure.is_silent() {
            words::complain(&failure.to_string());
        }
        End::Code(failure.code())
    });
    words::said();
    end.of_ourselves()
}

async fn perform(Args { servers, command }: Args) -> Result<End, Failure> {
    if let Some(what) = command.takes_scripts().filter(|_| servers.scriptless) {
        return Err(Failure::Scripts(what));
    }
    let code = match command {
        Command::Run(run) => return perform_run(&servers, &run).await,
        Command::Elect(elect) => return perform_run(&servers, &elect.into()).await,
        Command::Bench(bench) => return bench::bench(&servers, bench).await,
        Command::Watch(watch) => return watch.perform(&servers).await,
        Command::Release(release) => return release.perform(&servers).await,
        Command::Doctor(doctor) => doctor::doctor(&servers, doctor).await,
        Command::Inspect(inspect) => inspect.perform(&servers).await,
        Command::Nominate(nominate) => nominate.perform(&servers).await,
        Command::Once(once) => once.perform(&servers).await,
        Command::Limit(limit) => limit.perform(&servers).await,
        Command::List(list) => list.perform(&servers).await,
        Command::Completions(completions) => completions.perform(Args::command()),
        Command::Man(man) => man.perform(Args::command()),
    };
    code.map(End::Code)
}

/// All three processes run this program, which finds its part by its own name.
async fn perform_run(servers: &servers::Servers, run: &args::Run) -> Result<End, Failure> {
    let name = env::args_os().next().unwrap_or_default();
    if name == run::keeper::NAME {
        run::keeper::keep(servers, run).await
    } else if name == run::command::NAME {
        run::command::become_it(run)
    } else {
        run::run(run).await
    }
}
