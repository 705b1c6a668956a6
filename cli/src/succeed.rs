//! A command that runs in our place, where nothing of ours has to stay beside it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit::Failure;
use crate::words::plain;
use crate::{secret, signals};

/// Becomes the command, with this added to its environment; where there is none, that is success.
pub fn succeed_as<const N: usize>(
    words: &[OsString],
    environment: [(&str, OsString); N],
) -> Result<u8, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Ok(0) };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment);
    secret::keep_from(&mut command);
    signals::let_all_through();
    Err(Failure::Command(plain(program.as_encoded_bytes()), command.exec()))
}
