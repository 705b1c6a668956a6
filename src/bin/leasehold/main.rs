//! The `leasehold` command: a lock around another command, as flock(1) is on files, and who holds
//! what.
//!
//! It is a user of the library like any other: nothing here reaches behind its front door.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to who calls it")]

mod args;
mod bench;
mod doctor;
mod exit;
mod group;
mod inspect;
mod json;
mod list;
mod look;
mod output;
mod pages;
mod release;
mod run;
mod screen;
mod show;
mod signals;
mod terminal;
mod watch;
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use exit::Failure;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::of_usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(perform(args)),
        Err(error) => Err(Failure::System("no runtime could be started", error)),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !failure.is_silent() {
                words::complain(&failure.to_string());
            }
            ExitCode::from(failure.code())
        }
    }
}

async fn perform(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Run(run) => run::run(&args.servers, run).await,
        Command::Bench(bench) => bench::bench(&args.servers, bench).await,
        Command::Doctor(doctor) => doctor::doctor(&args.servers, doctor).await,
        Command::Inspect(inspect) => inspect.perform(&args.servers).await,
        Command::List(list) => list.perform(&args.servers).await,
        Command::Watch(watch) => watch.perform(&args.servers).await,
        Command::Release(release) => release.perform(&args.servers).await,
        Command::Completions(completions) => completions.perform(),
        Command::Man(man) => man.perform(),
    }
}
