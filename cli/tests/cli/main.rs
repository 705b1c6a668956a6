//! The command `leasehold`, against real servers.

mod access;
mod bench;
mod beside;
mod command;
mod diagnosis;
mod dialects;
mod doctor;
mod elections;
mod graced;
mod jobs;
mod kept;
mod limits;
mod looks;
mod processes;
mod run;
mod status;
mod terminal;
mod waits;
