//! The command `leasehold`, against real servers.
#![cfg(all(feature = "cli", feature = "tls"))]

mod access;
mod bench;
mod command;
mod doctor;
mod jobs;
mod looks;
mod processes;
mod run;
mod status;
mod terminal;
